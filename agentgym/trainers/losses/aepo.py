"""AEPO: keep a bounded gradient for tokens whose gradient PPO's upper clip would set to 0."""

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip, level_log_ratio


@loss("aepo")
def aepo(tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip`, except that tokens with r > 1 + clip_high and A > 0 have the loss -A (1 + clip_high) r / sg(r).

    Source: AEPO, arXiv 2510.14545, entropy clipping-balanced mechanism (sg: stop-gradient). In `clip`, these tokens,
    most of which have high entropy, have no gradient. Here their gradient is -A (1 + clip_high) grad log p, as at the
    edge of the clip; the value of the loss is that of `clip`. The other two parts of the method are credit `aepo` and
    branching `aepo`.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    log_ratio = level_log_ratio(tokens.logprobs, tokens.behaviour, tokens.batch)
    risen = (tokens.advantages > 0) & (log_ratio.exp() > 1 + clip_high)
    carried = -tokens.advantages * (1 + clip_high) * (log_ratio - log_ratio.detach()).exp()
    return carried.where(risen, losses), {**metrics, "carried_fraction": risen.float()}
