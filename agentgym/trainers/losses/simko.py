"""SimKO: in correct answers, raise several likely tokens together; in wrong ones, lower the likeliest token more."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym.errors import BadConfig
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update, clipped_losses
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within


def forks(update: Update, *, share: float) -> npt.NDArray[np.bool_]:
    """Return a mask [tokens] of the tokens whose entropy is above the 1 - `share` quantile of their reply."""
    entropy, turns = np.asarray(update.extra["entropy"]), np.asarray(update.turns)
    ordered = entropy[np.lexsort((entropy, turns))]
    _, of_turn, sizes = np.unique(turns, return_inverse=True, return_counts=True)
    first = np.cumsum(sizes) - sizes
    place = (1 - share) * (sizes - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, sizes - 1)
    quantile = ordered[first + below] * (1 - place + below) + ordered[first + above] * (place - below)
    return entropy > quantile[of_turn]


@loss("simko", needs=("entropy",), choose=forks, marks=True, top="k")
def simko(
    tokens: Tokens,
    *,
    k: Annotated[int, Within(1, 1000)] = 3,
    alpha: Annotated[float, Within(0, 1)] = 0.01,
    first: Annotated[float, Within(1)] = 1.1,
    share: Annotated[float, Within(0, 1)] = 0.2,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip`, with a different ratio or a larger loss for tokens of high entropy.

    Source: SimKO, arXiv 2510.14807. A token has high entropy if its entropy is above the 1 - `share` quantile of its
    reply. r is the token's ratio, and r_j are the ratios of the k likeliest tokens at its position. If A > 0, the ratio
    is (1 - alpha) r + alpha / k * sum_j sg(r / r_j) r_j (sg: stop-gradient): it has the value of r and spreads the
    gradient over the k tokens. If A < 0 and the token is the likeliest, its loss is multiplied by `first`. All other
    tokens have `clip`'s loss. Defaults and the quantile per reply are those of the published code (CLR-Lab/SimKO
    306f4ff).
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].

    Raises:
        BadConfig: the learner does not compute the likeliest tokens.
    """
    if tokens.top is None:
        raise BadConfig("loss 'simko' needs the likeliest tokens, and this learner computes none: take learner 'local'")
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp()
    fork = tokens.extra["chosen"] > 0
    spread = (tokens.top - tokens.top.detach()).exp().mean(-1)  # 1, with the mean gradient of the k log-probabilities
    smooth = (1 - alpha) * ratio + alpha * ratio.detach() * spread
    losses, clipped = clipped_losses(
        torch.where(fork & (tokens.advantages > 0), smooth, ratio), tokens.advantages, clip_low, clip_high
    )
    likeliest = tokens.logprobs.detach() >= tokens.top[:, 0].detach() - 1e-6
    harder = fork & likeliest & (tokens.advantages < 0)
    return torch.where(harder, first * losses, losses), {"clip_fraction": clipped.float(), "harder_fraction": harder.float()}
