"""REFUEL: regress differences of log-probabilities on differences of future rewards."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update
from agentgym.trainers.seam import Within


def pulls(update: Update, *, eta: float = 1.0) -> Any:
    """Return the derivative of each fork's squared error by the log-probability of its turn, [tokens].

    With l the log ratio of a turn, now against before the step, D = (l - mean l of its siblings) / eta and n siblings in
    total, it is 4 / (n eta) (D - A): for two, the derivative of ((l - l') / eta - A)^2. It is 0 for a turn without
    siblings.
    """
    fork, turns = np.asarray(update.extra["fork"], dtype=np.float64), update.turns
    slopes = np.zeros(len(turns))
    moved = np.bincount(turns, weights=np.asarray(update.present) - np.asarray(update.logprobs)) if len(turns) else slopes
    for number in np.unique(fork[~np.isnan(fork)]):
        members, first, place = np.unique(turns[fork == number], return_index=True, return_inverse=True)
        n = len(members)
        if n < 2:
            continue
        ratios, targets = moved[members], np.asarray(update.advantages)[fork == number][first]
        lead = (ratios - (ratios.sum() - ratios) / (n - 1)) / eta
        slopes[fork == number] = (4 / (n * eta) * (lead - targets))[place.reshape(-1)]
    return slopes


@loss("refuel", needs=("fork",), choose=pulls, marks=True, present=True)
def refuel(tokens: Tokens, *, eta: Annotated[float, Within(0.001, 1000)] = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute the squared error ((ln r(y) - ln r(y')) / eta - (R - R'))^2 of two continuations y, y' of one turn.

    Source: REFUEL, arXiv 2410.04612, eq. 4: r is the ratio of a turn's probability to what it was before the update, R the
    future reward from the turn on; only the turn where the two part is trained. Use credit `relative_future`, branching
    `pairs`, and `loss_aggregation` `episode-sum`, which weighs every pair equally. With n continuations it is the mean over
    their pairs. The gradient is exact, also where the two lie in different micro-batches: before each update the tokens are
    scored again, and the loss is its derivative by ln p times ln p. `refuel_error` is the squared error for
    two. No clip. `minibatches` has to be 1: all of a pair's tokens are in one update; `epochs` continue the regression.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    pull = tokens.extra["chosen"]
    return pull * tokens.logprobs, {"refuel_error": (pull * eta / 2).square()}
