"""CISPO: cap the importance weight of a token without removing its gradient."""

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens
from agentgym.trainers.run.metrics import LIMIT


@loss("cispo")
def cispo(tokens: Tokens, *, clip_high: float = 0.2) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute CISPO's loss (MiniMax-M1, arXiv 2506.13585, section 3.1): -sg(min(ratio, 1 + clip_high)) * A * log p.

    The cap applies to the weight, so every token has a gradient (sg: stop-gradient). As in the paper, the weight has no
    lower bound.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp().detach()
    losses = -ratio.clamp(max=1 + clip_high) * tokens.advantages * tokens.logprobs
    return losses, {"clip_fraction": (ratio > 1 + clip_high).float()}
