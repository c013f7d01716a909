"""Clip-Cov and KL-Cov: exclude or penalize the few tokens that would reduce entropy most."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from torch import Tensor

from agentgym.core.seeding import generator
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update, clip
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

Share = Annotated[float, Within(0, 1)]


def covariances(update: Update) -> npt.NDArray[np.float64]:
    """Return (log p - mean) * (A - mean) for each token of an update, [tokens]: how much the token reduces entropy."""
    return (update.logprobs - update.logprobs.mean()) * (update.advantages - update.advantages.mean())


def _between(update: Update, *, share: float, low: float, high: float, step: int) -> npt.NDArray[np.float32]:
    """Return factors [tokens]: 0 for tokens drawn from those with a covariance from `low` to `high`, 1 for others.

    `share` of all tokens are drawn, at least one, or all candidates if there are fewer.
    """
    covariance = covariances(update)
    candidates = np.flatnonzero((covariance >= low) & (covariance <= high))
    number = min(max(int(share * len(covariance)), 1), len(candidates))
    factors = np.ones(len(covariance), dtype=np.float32)
    factors[generator("clip_cov", update.seed, step).choice(candidates, number, replace=False) if number else candidates] = 0
    return factors


@loss("clip_cov", choose=_between)
def clip_cov(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    share: Share = 0.0002,
    low: float = 1.0,
    high: float = 5.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute Clip-Cov (arXiv 2505.22617, section 4.2): the clipped loss without a few tokens that reduce entropy most.

    The covariance of a token is (log p - mean) * (A - mean). The excluded tokens are drawn at random from those with a
    covariance from `low` to `high`: a `share` of the update's tokens, at least one if there are any. Defaults are
    verl's; verl draws only from tokens that are not clipped already.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    del share, low, high  # for `choose`, which sees the whole update
    return clip(tokens, clip_low=clip_low, clip_high=clip_high)


def _highest(update: Update, *, share: float) -> npt.NDArray[np.float32]:
    """Return [tokens]: 1 for the `share` of tokens with the highest covariance (at least one), 0 for others."""
    covariance = covariances(update)
    marks = np.zeros(len(covariance), dtype=np.float32)
    marks[np.argsort(-covariance, kind="stable")[: max(int(share * len(covariance)), 1)]] = 1
    return marks


@loss("kl_cov", choose=_highest, marks=True)
def kl_cov(
    tokens: Tokens, *, share: Share = 0.0002, weight: Annotated[float, Within(0)] = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute KL-Cov (arXiv 2505.22617, section 4.2): -A * ratio, plus `weight` * |log ratio| for a few tokens; no clip.

    The penalty applies to the `share` of the update's tokens (at least one) with the highest covariance; see
    `clip_cov`. Defaults are verl's.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    del share  # for `choose`
    log_ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT)
    penalty = tokens.extra["chosen"] * log_ratio.abs()
    return -tokens.advantages * log_ratio.exp() + weight * penalty, {"held_fraction": tokens.extra["chosen"]}
