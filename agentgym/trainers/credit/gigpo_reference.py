"""GiGPO exactly as its published code computes it, including the differences from the paper."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.gigpo import anchor_groups, step_returns
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NORMS, Norm, NotNegative, Punish, Share, choice, punished
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("gigpo_reference")
def gigpo_reference(
    group: Group,
    *,
    gamma: Share = 0.95,
    step_weight: NotNegative = 1.0,
    norm: Norm = "mean",
    eps: NotNegative = 1e-6,
    penalty: NotNegative = 0.0,
    punish: Punish = "valid",
    copies: Sequence[tuple[int, int]] = (),
) -> list[Floats]:
    """Credit each turn with A_E + step_weight * A_S exactly as the authors' code does, to compare with published numbers.

    Source: verl-agent, `gigpo/core_gigpo.py` and `ray_trainer.py`. Each turn is one row, and its score is the return of
    its episode. Statistics of both terms are over rows, so long episodes weigh more in A_E and every visit counts in
    A_S. Anchors are raw observations, including answers to invalid actions. ddof 1, `eps` 1e-6, one `norm` for both
    terms. A group of one row keeps its raw score (mean 0, std 1); an anchor group of one gives 0; zero spread gives 0.
    Penalties are subtracted after discounting: from the row's score and from its G only.
    `copies` lists the (episode, turn) rows that the published code repeats at random to fill its batches. Each adds one
    more count to all statistics. The published loss also counts a row once more for each copy; the caller has to do
    that.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `norm="std"`.
    """
    choice("norm", norm, NORMS)
    pairs = [(i, k) for i, episode in enumerate(group) for k in range(len(episode.turns))]
    scores = {
        (i, k): value
        for i, episode in enumerate(group)
        for k, value in enumerate(turn_rewards(episode).sum() - penalty * punished(episode.turns, punish))
    }
    returns = step_returns(group, gamma=gamma, penalty=penalty, punish=punish, penalty_order="after")
    rows = [scores[pair] for pair in [*pairs, *copies]]
    mean, scale = (0.0, 1.0 + eps) if len(rows) == 1 else _statistics(rows, eps)
    advantages = [np.zeros(len(episode.turns)) for episode in group]
    for i, k in pairs:
        advantages[i][k] = (scores[i, k] - mean) / (scale if norm == "std" else 1.0)
    for members in anchor_groups(group, "observation", keep_errors=True).values():
        again = [pair for pair in copies if pair in members]
        values = [returns[i][k] for i, k in [*members, *again]]
        if len(values) == 1:
            continue
        mean, scale = _statistics(values, eps)
        for i, k in members:
            advantages[i][k] += step_weight * (returns[i][k] - mean) / (scale if norm == "std" else 1.0)
    return advantages


def _statistics(values: Sequence[float], eps: float) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) + eps)
