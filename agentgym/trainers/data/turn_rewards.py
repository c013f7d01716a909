"""What each turn of an episode was paid."""

import numpy as np
from numpy.typing import NDArray

from agentgym.core.outcome import shaping
from agentgym.episodes.episode import Episode


def turn_rewards(episode: Episode) -> NDArray[np.float64]:
    """Return the reward of each turn, [turns].

    In one role's view of several the outcome of that role stands in its last turn, in place of what the environment paid
    whichever role acted last.
    """
    if len(episode.role_outcomes) != 1:
        return np.array([turn.reward for turn in episode.turns], dtype=np.float64)
    rewards = np.array([shaping(turn.rewards) for turn in episode.turns], dtype=np.float64)
    rewards[-1] += next(iter(episode.role_outcomes.values()))
    return rewards
