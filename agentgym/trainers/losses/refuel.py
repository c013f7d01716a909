"""REFUEL: regress differences of log-probabilities on differences of future rewards."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update
from agentgym.trainers.seam import Within


def pulls(update: Update, *, eta: float = 1.0) -> Any:
    """Return the derivative of each fork's squared error with respect to the log-probability of the token's turn, [tokens].

    A fork is a set of n siblings: turns that follow the same turns. l is the log ratio of a turn, now against before
    the step, and D = (l - mean l of the other siblings) / eta. The derivative is 4 / (n eta) (D - A); for two siblings
    this is the derivative of ((l - l') / eta - A)^2. It is 0 for a turn without siblings.
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

    Source: REFUEL, arXiv 2410.04612, eq. 4. r is the ratio of a turn's probability to its probability before the step,
    and R is the future reward from the turn on. Only the first turn of each continuation is trained. With n
    continuations, the loss is the mean over their pairs. Use it with credit `relative_future`, branching `pairs`, and
    `loss_aggregation` `episode-sum`, which weighs every pair equally.

    Before each update the tokens are scored again. The returned loss is the error's derivative with respect to ln p,
    times ln p. So the gradient is exact even if the two continuations are in different micro-batches. `minibatches` has
    to be 1, so that an update contains all tokens of a pair; further `epochs` continue the regression. Nothing is
    clipped. The metric `refuel_error` is the squared error if there are two continuations.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    pull = tokens.extra["chosen"]
    return pull * tokens.logprobs, {"refuel_error": (pull * eta / 2).square()}
