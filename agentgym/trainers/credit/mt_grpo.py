"""MT-GRPO: compare turn rewards and the outcome separately with those of the group."""

from typing import Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Norm, NotNegative, centred
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("mt_grpo")
def mt_grpo(
    group: Group,
    *,
    outcome_weight: NotNegative = 1.0,
    norm: Norm = "std",
    ddof: Literal[0, 1] = 1,
    eps: NotNegative = 1e-6,
) -> list[Floats]:
    """Credit each turn k before the last with N(r_k) + outcome_weight * N(o), and the last turn with N(o).

    Source: arXiv 2505.11821, section 4.2 (version 1, turn-level credit assignment), which covers episodes of two turns;
    the extension to more turns and to episodes of different lengths is ours. o is the reward of the last turn, r_k the
    reward of turn k. With `outcome_weight` 1, it differs from GRPO only if the environment or a reward pays turns
    before the last.
    Statistics: N is (x - mean) / (std + eps) over the group with `ddof`. For o it is over all trajectories, for r_k
    over those in which turn k is not the last. `norm="mean"` does not divide. A group of one episode gives 0, as does
    any single value; zero spread gives exactly 0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations, or in units of the reward with `norm="mean"`.
    """
    rewards = [turn_rewards(episode) for episode in group]
    outcomes = centred(np.array([row[-1] for row in rewards]), norm=norm, ddof=ddof, eps=eps)
    credits = [np.full(len(row), outcome_weight * outcome) for row, outcome in zip(rewards, outcomes, strict=True)]
    for array, outcome in zip(credits, outcomes, strict=True):
        array[-1] = outcome
    for k in range(max(map(len, rewards)) - 1):
        there = [i for i, row in enumerate(rewards) if k < len(row) - 1]
        scores = centred(np.array([rewards[i][k] for i in there]), norm=norm, ddof=ddof, eps=eps)
        for i, score in zip(there, scores, strict=True):
            credits[i][k] += score
    return credits
