"""Losses of the field beside the clipped one; each says its paper, and where it differs."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from agentgym.core.seeding import generator
from agentgym.trainers.losses import Tokens, Update, clip
from agentgym.trainers.metrics import LIMIT
from agentgym.trainers.stages.loss import loss
from agentgym.trainers.stages.seams import Within


@loss("cispo")
def cispo(tokens: Tokens, *, clip_high: float = 0.2) -> tuple[Tensor, dict[str, Tensor]]:
    """CISPO (MiniMax-M1, arXiv 2506.13585, section 3.1): -sg(min(ratio, 1 + clip_high)) * A * log p.

    The weight is capped and not the update, so that every token has a gradient. As there, nothing bounds it from below.
    """
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp().detach()
    losses = -ratio.clamp(max=1 + clip_high) * tokens.advantages * tokens.logprobs
    return losses, {"clip_fraction": (ratio > 1 + clip_high).float()}


@loss("icepop")
def icepop(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    band_low: Annotated[float, Within(0, 1)] = 0.5,
    band_high: Annotated[float, Within(1)] = 5.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """IcePop (Ring-1T, arXiv 2510.18855): the clipped loss of tokens on which engine and trainer roughly agree.

    Tokens whose probability before the update, trainer's over engine's, is not from `band_low` to `band_high` count
    nothing. The factor trainer / engine of the others is `tis_cap`'s: it is the published one with tis_cap >= band_high.
    """
    gap = (tokens.behaviour - tokens.engine).clamp(-LIMIT, LIMIT).exp()
    inside = ((gap >= band_low) & (gap <= band_high)).float()
    losses, told = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    return losses * inside, {**told, "masked_fraction": 1 - inside}


def _by_covariance(update: Update, *, share: float, low: float, high: float, step: int) -> Any:
    """Return 0 for a drawn `share` of all tokens, out of those whose covariance is from `low` to `high`, and 1 else."""
    covariance = (update.logprobs - update.logprobs.mean()) * (update.advantages - update.advantages.mean())
    candidates = np.flatnonzero((covariance >= low) & (covariance <= high))
    number = min(max(int(share * len(covariance)), 1), len(candidates))
    factors = np.ones(len(covariance), dtype=np.float32)
    factors[generator("clip_cov", step).choice(candidates, number, replace=False) if number else candidates] = 0
    return factors


@loss("clip_cov", choose=_by_covariance)
def clip_cov(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    share: Annotated[float, Within(0, 1)] = 0.0002,
    low: float = 1.0,
    high: float = 5.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clip-Cov (arXiv 2505.22617, section 4.2): the clipped loss without a few tokens that would cost much entropy.

    Those are drawn, a `share` of the update's tokens and at least one, from the tokens whose covariance, (log p - its
    mean) * (A - its mean), is from `low` to `high`.
    """
    del share, low, high  # for `choose`, before the update is cut up
    return clip(tokens, clip_low=clip_low, clip_high=clip_high)
