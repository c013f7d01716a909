"""What each turn of an episode was paid."""

import numpy as np
from numpy.typing import NDArray

from agentgym.core.outcome import shaping
from agentgym.episodes.episode import Episode
from agentgym.errors import BadData


def turn_rewards(episode: Episode) -> NDArray[np.float64]:
    """Return the reward of each turn, [turns].

    In one role's view of several the outcome of that role stands in its last turn, in place of what the environment paid
    whichever role acted last.

    Raises:
        BadData: The episode has a reward, and none of its turns was paid.
    """
    if len(episode.role_outcomes) != 1:
        paid = np.array([turn.reward for turn in episode.turns], dtype=np.float64)
        if (
            episode.reward and not paid.any()
        ):  # an episode made by hand or by another program; credit would be 0 without a word
            raise BadData(
                f"episode {episode.task_id!r} has reward {episode.reward}, and none of its turns was paid; expected the "
                "reward in the turns that earned it: Episode.pay_last(reward, {}) pays the last one"
            )
        return paid
    rewards = np.array([shaping(turn.rewards) for turn in episode.turns], dtype=np.float64)
    rewards[-1] += next(iter(episode.role_outcomes.values()))
    return rewards
