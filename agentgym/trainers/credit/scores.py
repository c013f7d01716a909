"""What credit functions are made of: turn rewards, penalties, discounting, and centring within a group."""

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import numpy as np

from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig
from agentgym.trainers.credit.interface import Floats, Within

Punish = Literal["valid", "parsed"]
Order = Literal["before", "after", "advantage"]
Norm = Literal["std", "mean"]
NotNegative = Annotated[float, Within(0)]
Share = Annotated[float, Within(0, 1)]
PUNISH, ORDERS, NORMS = get_args(Punish), get_args(Order), get_args(Norm)


def choice(name: str, value: str, known: Sequence[str]) -> None:
    """Raise BadConfig unless the value of the hyper-parameter is one of the known ones."""
    if value not in known:
        raise BadConfig(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}")


def punished(turns: Sequence[Turn], punish: str) -> Floats:
    """Return 1 for each turn to be punished: the environment rejected the action (`valid`), or none was found (`parsed`)."""
    choice("punish", punish, PUNISH)
    return np.array([not (turn.valid if punish == "valid" else turn.parsed) for turn in turns], dtype=np.float64)


def discounted(rewards: Floats, gamma: float) -> Floats:
    """Return G_k = r_k + gamma * G_{k+1} for each turn."""
    returns, later = np.empty_like(rewards), 0.0
    for k in range(len(rewards) - 1, -1, -1):
        later = rewards[k] + gamma * later
        returns[k] = later
    return returns


def centred(scores: Floats, *, norm: str, ddof: int, eps: float) -> Floats:
    """Return scores minus their mean, divided by (std + eps) where `norm` is `std`.

    One score alone gives 0, and scores without spread give exactly 0.
    """
    choice("norm", norm, NORMS)
    if len(scores) < 2 or scores.max() == scores.min():
        return np.zeros_like(scores)
    difference = scores - scores.mean()
    return difference if norm == "mean" else difference / (scores.std(ddof=ddof) + eps)


def rows_against_trajectories(rows: list[Floats], *, norm: str, ddof: int, eps: float) -> list[Floats]:
    """Centre each trajectory's row scores by statistics in which every trajectory counts once, by its mean row score.

    A group of one gives 0, and so do trajectories without spread. Where all rows of a trajectory are equal this is
    GRPO; they differ only when a penalty is taken from single rows.
    """
    means = np.array([row.mean() if row.max() > row.min() else row[0] for row in rows])
    base = centred(means, norm=norm, ddof=ddof, eps=eps)
    if len(means) < 2 or means.max() == means.min():
        return [np.zeros_like(row) for row in rows]
    scale = 1.0 if norm == "mean" else float(means.std(ddof=ddof) + eps)
    return [base[i] + (row - means[i]) / scale for i, row in enumerate(rows)]
