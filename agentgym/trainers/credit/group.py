"""Credit that compares whole episodes of a group: GRPO, Dr.GRPO, RLOO."""

from typing import Literal

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import (
    ORDERS,
    Norm,
    NotNegative,
    Order,
    Punish,
    choice,
    punished,
    rows_against_trajectories,
)
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("grpo")
def grpo(
    group: Group,
    *,
    norm: Norm = "std",
    ddof: Literal[0, 1] = 1,
    eps: NotNegative = 1e-6,
    penalty: NotNegative = 0.0,
    punish: Punish = "valid",
    penalty_order: Order = "advantage",
) -> list[Floats]:
    """Credit every turn of an episode with (R - mean) / (std + eps) over the returns R of its group.

    Source: GRPO, arXiv 2402.03300, section 4.1.2 (outcome supervision). Statistics over trajectories: each counts once,
    however long it is. `ddof` 1 as in verl and TRL (0 is NumPy's default). `norm="mean"` only subtracts the mean. A
    group of one episode gives 0; zero spread gives exactly 0.

    Penalties: a turn costs `penalty` if the environment rejected its action (`punish="valid"`) or if no action was
    found in its reply (`punish="parsed"`). With `penalty_order="before"` the cost is part of the return, so all turns
    of the episode share it. With `"after"` it lowers only that turn's score, and statistics use each trajectory's mean
    score. With `"advantage"` it is subtracted from that turn's final advantage and never divided by the spread.
    Returns an array [turns] per episode, in standard deviations of R, or in units of the reward with `norm="mean"`.
    """
    return episode_advantages(
        group, norm=norm, ddof=ddof, eps=eps, penalty=penalty, punish=punish, penalty_order=penalty_order
    )


@credit("dr_grpo")
def dr_grpo(
    group: Group, *, penalty: NotNegative = 0.0, punish: Punish = "valid", penalty_order: Order = "advantage"
) -> list[Floats]:
    """Credit every turn of an episode with R - mean over the returns R of its group, without dividing by the spread.

    Source: Dr.GRPO, arXiv 2503.20783, section 3.2. Use it with the loss aggregation `constant`, which divides by a
    fixed length instead of each episode's own. Statistics over trajectories; no ddof, no eps. A group of one episode
    gives 0; zero spread gives exactly 0. Penalties as in `grpo`.
    Returns an array [turns] per episode, in units of the reward.
    """
    return episode_advantages(
        group, norm="mean", ddof=0, eps=0.0, penalty=penalty, punish=punish, penalty_order=penalty_order
    )


@credit("rloo")
def rloo(
    group: Group, *, penalty: NotNegative = 0.0, punish: Punish = "valid", penalty_order: Order = "advantage"
) -> list[Floats]:
    """Credit every turn of an episode with R minus the mean return of the other episodes: n/(n-1) * (R - mean).

    Source: RLOO, arXiv 2402.14740, section 3.2 (leave-one-out baseline of Kool et al., 2019). Statistics over
    trajectories; no ddof, no eps. A group of one episode gives 0 (verl: the raw return); zero spread gives exactly 0.
    Penalties as in `grpo`; with `penalty_order="advantage"` they are not multiplied by n/(n-1).
    Returns an array [turns] per episode, in units of the reward.
    """
    n = len(group)
    factor = n / (n - 1) if n > 1 else 0.0
    own = penalty if penalty_order == "advantage" else 0.0
    shared = penalty if penalty_order != "advantage" else 0.0
    order = "before" if penalty_order == "advantage" else penalty_order
    centred = episode_advantages(group, norm="mean", ddof=0, eps=0.0, penalty=shared, punish=punish, penalty_order=order)
    return [factor * row - own * punished(e.turns, punish) for row, e in zip(centred, group, strict=True)]


def episode_advantages(
    group: Group, *, norm: str, ddof: int, eps: float, penalty: float, punish: str, penalty_order: str
) -> list[Floats]:
    """Return the group-relative advantages, one array [turns] per episode, with penalties as `grpo` describes."""
    choice("penalty_order", penalty_order, ORDERS)
    marks = [punished(episode.turns, punish) for episode in group]
    rows: list[Floats] = []
    for episode, mark in zip(group, marks, strict=True):
        score = turn_rewards(episode).sum()
        if penalty_order == "before":
            rows.append(score - penalty * mark.sum() + 0.0 * mark)
        else:
            rows.append(score - (penalty * mark if penalty_order == "after" else 0.0 * mark))
    centred = rows_against_trajectories(rows, norm=norm, ddof=ddof, eps=eps)
    if penalty_order != "advantage":
        return centred
    return [row - penalty * mark for row, mark in zip(centred, marks, strict=True)]
