"""Rewards per turn."""

import numpy as np
from numpy.typing import NDArray

from agentgym.core.outcome import shaping
from agentgym.episodes.episode import Episode
from agentgym.errors import BadData


def turn_rewards(episode: Episode) -> NDArray[np.float64]:
    """Return the reward of each turn, [turns].

    In one role's view of a game with several roles, these are the turns' shaping rewards, and the last turn also gets the
    role's outcome.

    Raises:
        BadData: the episode has a reward, but no turn has a reward.
    """
    if len(episode.role_outcomes) != 1:
        paid = np.array([turn.reward for turn in episode.turns], dtype=np.float64)
        if episode.reward and not paid.any():  # made by hand or by another program; credit would silently be 0
            raise BadData(
                f"episode {episode.task_id!r} has reward {episode.reward}, and none of its turns was paid; expected the "
                "reward in the turns that earned it: Episode.pay_last(reward, {}) pays the last one"
            )
        return paid
    rewards = np.array([shaping(turn.rewards) for turn in episode.turns], dtype=np.float64)
    rewards[-1] += next(iter(episode.role_outcomes.values()))
    return rewards
