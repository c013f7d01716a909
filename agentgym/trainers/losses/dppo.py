"""DPPO: a trust region on probabilities instead of ratios."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

TINY = 1e-8


@loss("dppo")
def dppo(
    tokens: Tokens,
    *,
    divergence: Literal["tv", "kl"] = "tv",
    low: Annotated[float, Within(0)] = 0.2,
    high: Annotated[float, Within(0)] = 0.2,
    tau: Annotated[float, Within(0)] = 1e-3,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute DPPO (arXiv 2602.04879), binary masks: -keep * A * ratio + tau * (log p - log mu)^2; mu is the engine's p.

    `keep` is 0 for a token that is already too far from the sampling policy if its advantage pushes it further away.
    With `tv`: p - mu > high (A > 0), or p - mu < -low (A <= 0). With `kl`: p > mu and D > high (A > 0), or p < mu and
    D > low (A <= 0), where D = mu log(mu / p) + (1 - mu) log((1 - mu) / (1 - p)) compares this token with all others.
    The bounds apply to probabilities, so the ratio of a rare token is unbounded.

    prime-rl uses tv with 0.2 and tau 1e-3, and applies the tau term to masked tokens too, as here; verl uses kl and
    caps the ratio instead. Nothing is clipped; `tis_cap` applies as in every loss.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    p, mu = tokens.logprobs.detach().exp(), tokens.engine.exp()
    up = tokens.advantages > 0
    if divergence == "tv":
        far = torch.where(up, p - mu > high, p - mu < -low)
    else:
        kl = mu * (mu.clamp(min=TINY) / p.clamp(min=TINY)).log() + (1 - mu) * ((1 - mu + TINY) / (1 - p + TINY)).log()
        far = torch.where(up, (kl > high) & (p > mu), (kl > low) & (p < mu))
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp()
    gap = (tokens.logprobs - tokens.engine).clamp(-LIMIT, LIMIT)
    return -(~far).float() * tokens.advantages * ratio + tau * gap.square(), {"masked_fraction": far.float()}
