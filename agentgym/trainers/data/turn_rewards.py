"""What each turn of an episode was paid."""

import numpy as np
from numpy.typing import NDArray

from agentgym.episodes.episode import Episode


def turn_rewards(episode: Episode) -> NDArray[np.float64]:
    """Return the reward of each turn; what a role was paid outside its own turns goes to its last one."""
    rewards = np.array([turn.reward for turn in episode.turns], dtype=np.float64)
    outside = episode.reward - rewards.sum()
    if abs(outside) > 1e-9:
        rewards[-1] += outside
    return rewards
