"""Turn-wise DPO (SWEET-RL): raise the better half of the replies to one history relative to the worse half."""

from itertools import product
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update
from agentgym.trainers.seam import Within


def pulls(update: Update, *, beta: float = 0.1) -> Any:
    """Return the derivative of each fork's loss with respect to the log-probability of the token's turn, [tokens].

    A fork is a set of siblings: turns that follow the same turns. They are ranked by their advantage. The fork's loss
    is the mean of -log sigmoid(beta (l - l')) over all pairs of a turn from the better half and a turn from the worse
    half; l is the log ratio of a turn, now against before the step. Pairs with equal advantages are left
    out. The derivative is 0 for a turn without siblings.
    """
    fork, turns = np.asarray(update.extra["fork"], dtype=np.float64), update.turns
    slopes = np.zeros(len(turns))
    if not len(turns):
        return slopes
    moved = np.bincount(turns, weights=np.asarray(update.present) - np.asarray(update.logprobs)).astype(np.float64)
    for number in np.unique(fork[~np.isnan(fork)]):
        members, first, place = np.unique(turns[fork == number], return_index=True, return_inverse=True)
        if len(members) > 1:
            advantages = np.asarray(update.advantages, dtype=np.float64)[fork == number][first]
            slopes[fork == number] = _pulls(moved[members], advantages, beta)[place.reshape(-1)]
    return slopes


def _pulls(moved: npt.NDArray[np.float64], advantages: npt.NDArray[np.float64], beta: float) -> npt.NDArray[np.float64]:
    """Return the derivative of one fork's loss with respect to the log-probability of each turn, [turns].

    `moved` is each turn's log ratio, now against before the step.
    """
    order, half = np.argsort(-advantages, kind="stable"), len(advantages) // 2
    ranked = [(a, b) for a, b in product(order[:half], order[len(order) - half :]) if advantages[a] > advantages[b]]
    slopes = np.zeros(len(advantages))
    for better, worse in ranked:
        gap = min(beta * (moved[better] - moved[worse]), 700.0)  # bounded, or exp overflows
        wrong = beta / (1 + np.exp(gap)) / len(ranked)
        slopes[better] -= wrong
        slopes[worse] += wrong
    return slopes


@loss("turn_dpo", needs=("fork",), choose=pulls, marks=True, present=True)
def turn_dpo(tokens: Tokens, *, beta: Annotated[float, Within(0.0001, 1000)] = 0.1) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute -log sigmoid(beta (ln r(better) - ln r(worse))) of replies to one history, ranked by their advantages.

    Source: SWEET-RL, arXiv 2503.15478: DPO (2305.18290) on turns ranked by a critic (credit `sweet`), the better half
    of the replies against the worse half. r is the ratio of a turn's probability to its probability before the step;
    the paper, which trains once, compares with the initial policy. Branching `pairs` or `turns` samples several replies
    to one history; only these replies are trained, not the turns after them. Use `loss_aggregation` `episode-sum`.

    Before each update the tokens are scored again. The returned loss is the derivative with respect to ln p, times ln
    p. So the gradient is exact even if the replies are in different micro-batches. `minibatches` has to be 1; further
    `epochs` continue. In the first update, all pairs have the same derivative, whatever their margin. The metric
    `turn_dpo_pull` is the absolute derivative divided by beta: 1/2 for a pair before the first update, 0 once the pair
    is learned.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    pull = tokens.extra["chosen"]
    return pull * tokens.logprobs, {"turn_dpo_pull": pull.abs() / beta}
