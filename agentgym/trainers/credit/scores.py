"""Building blocks of credit functions: turn rewards, penalties, discounting, and centering within a group."""

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
    """Check that the hyperparameter `name` has one of the `known` values.

    Raises:
        BadConfig: the value is unknown.
    """
    if value not in known:
        raise BadConfig(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}")


def punished(turns: Sequence[Turn], punish: str) -> Floats:
    """Return 1 for each turn whose action was rejected (`punish="valid"`) or not found (`"parsed"`), else 0; [turns]."""
    choice("punish", punish, PUNISH)
    return np.array([not (turn.valid if punish == "valid" else turn.parsed) for turn in turns], dtype=np.float64)


def discounted(rewards: Floats, gamma: float) -> Floats:
    """Return the discounted sums G_k = r_k + gamma * G_{k+1} of `rewards`, both [turns]."""
    returns, later = np.empty_like(rewards), 0.0
    for k in range(len(rewards) - 1, -1, -1):
        later = rewards[k] + gamma * later
        returns[k] = later
    return returns


def centred(scores: Floats, *, norm: str, ddof: int, eps: float) -> Floats:
    """Return `scores` minus their mean, divided by (std + eps) if `norm` is `std`; both are [scores].

    A single score gives 0, and scores without spread give exactly 0.
    """
    choice("norm", norm, NORMS)
    if len(scores) < 2 or scores.max() == scores.min():
        return np.zeros_like(scores)
    difference = scores - scores.mean()
    return difference if norm == "mean" else difference / (scores.std(ddof=ddof) + eps)


def rows_against_trajectories(rows: list[Floats], *, norm: str, ddof: int, eps: float) -> list[Floats]:
    """Center scores [turns] by statistics over the trajectories' mean scores, so that each trajectory counts once.

    A group of one episode gives 0, and so do trajectories without spread. If each trajectory has equal scores in all of
    its turns, this is GRPO.
    """
    means = np.array([row.mean() if row.max() > row.min() else row[0] for row in rows])
    base = centred(means, norm=norm, ddof=ddof, eps=eps)
    if len(means) < 2 or means.max() == means.min():
        return [np.zeros_like(row) for row in rows]
    scale = 1.0 if norm == "mean" else float(means.std(ddof=ddof) + eps)
    return [base[i] + (row - means[i]) / scale for i, row in enumerate(rows)]
