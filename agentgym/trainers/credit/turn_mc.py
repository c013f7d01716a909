"""Turn Monte Carlo: compare a turn's return-to-go with the group's mean return-to-go."""

from typing import Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Norm, NotNegative, Share, discounted, rows_against_trajectories
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("turn_mc")
def turn_mc(
    group: Group, *, gamma: Share = 0.95, norm: Norm = "mean", ddof: Literal[0, 1] = 1, eps: NotNegative = 1e-6
) -> list[Floats]:
    """Credit turn k with G_k - mean, where G_k = r_k + gamma * G_{k+1} and the mean is the group's mean return-to-go.

    Source: the Monte Carlo policy gradient (REINFORCE; Sutton and Barto, section 13.4) with the group's mean as the
    baseline. Statistics over trajectories: each counts once, by the mean of its G. `norm="std"` divides by their std +
    eps (with `ddof`). With gamma 1 and a single reward at the end, it equals `grpo` with this `norm`. A group of one
    episode gives 0; so does a group without spread. Rejected actions get no penalties.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `norm="std"`.
    """
    returns = [discounted(turn_rewards(episode), gamma) for episode in group]
    if len({row.tobytes() for row in returns}) == 1:
        return [np.zeros_like(row) for row in returns]
    return rows_against_trajectories(returns, norm=norm, ddof=ddof, eps=eps)
