"""The policy-gradient loss in small parts: ratio, clip, mismatch correction, KL, and sums with global weights."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor

from agentgym.errors import BadConfig
from agentgym.trainers.data.packing import Batch
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

LEVELS = ("token", "turn", "sequence")
KINDS = ("k1", "k2", "k3")

Sums = dict[str, Tensor]
"""Metrics: name -> [2] = (sum, count), so that sums over micro-batches and processes give the mean over all tokens."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Input of a loss function: the trained tokens of a micro-batch; each tensor is [tokens] unless stated otherwise."""

    logprobs: Tensor
    """Log-probabilities under the weights being trained, with gradient."""
    behaviour: Tensor
    """Denominator of the importance ratio: log-probabilities of the trainer before the step, or else of the engine. For
    tokens that were sampled with a hint that the training row lacks, it is always the engine's."""
    engine: Tensor
    """Log-probabilities recorded by the engine."""
    advantages: Tensor
    entropy: Tensor
    """Entropy in nats under the weights being trained, without gradient; `entropy_bonus` has a gradient."""
    batch: Batch
    """The micro-batch: `turns` and `rows` are the indices of each token's turn and row, `weights` its weight in the sum."""
    top: Tensor | None = None
    """Log-probabilities of the k likeliest tokens at each position, highest first, [tokens, k]; None if the loss uses
    none."""

    @property
    def extra(self) -> Mapping[str, Tensor]:
        """The values that the loss declared as needs, by name.

        Each tensor is [tokens].
        """
        return self.batch.extra


@dataclass(frozen=True, slots=True)
class Update:
    """Input of a loss's `choose`: all tokens of one optimizer update in this process, as NumPy arrays [tokens]."""

    advantages: Any
    logprobs: Any
    """Log-probabilities before the step if the trainer computed them, else the engine's."""
    turns: Any
    """Index of each token's turn in the update."""
    episodes: Any
    extra: Mapping[str, Any]
    present: Any = None
    """Log-probabilities under the current weights; None unless the loss is declared with `present`."""
    seed: int = 0
    """Seed of the run; a `choose` that draws random tokens combines it with `step`."""


@loss("clip")
def clip(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    importance_sampling_level: Literal["token", "turn", "sequence"] = "token",
    dual_clip: Annotated[float, Within(0)] = 0.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute PPO's clipped loss (arXiv 1707.06347, eq. 7) with separate lower and upper widths, as in DAPO.

    The ratio is per token, per turn or per row (GSPO). `dual_clip` above 0 bounds the loss of tokens with negative
    advantage (arXiv 1912.09729).
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    log_ratio = level_log_ratio(tokens.logprobs, tokens.behaviour, tokens.batch, importance_sampling_level)
    losses, clipped = clipped_losses(log_ratio.exp(), tokens.advantages, clip_low, clip_high, dual_clip or None)
    return losses, {"clip_fraction": clipped.float()}


def policy_loss(
    scores: Scores,
    batch: Batch,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    function: Callable[[Tokens], object] = clip,
    correction: float | None = 2.0,
    kl: str = "k3",
    kl_weight: float = 0.0,
    entropy_weight: float = 0.0,
) -> tuple[Tensor, Sums]:
    """Return the loss of a micro-batch (a sum without division: `batch.weights` contain the denominators) and its metrics.

    `scores` come from `policy_logprobs`; all tensors are [trained]. `function` is the loss per token; see `loss`. `old`
    contains the trainer's own log-probabilities before the step. With `old`, the ratio is new / old, and each token's
    loss is multiplied by min(old / engine, `correction`), which corrects for an engine with slightly different numbers
    (`correction` None: no factor).
    Without `old`, the ratio is new / engine.

    Tokens whose hint was removed (`batch.hint_removed`) always have the ratio new / engine: pi(token | prompt) /
    pi_old(token | prompt, hint), as in Guide (arXiv 2506.13923). Its mean is the metric `hint_ratio`. `reference`
    contains the reference model's log-probabilities for the KL penalty. `entropy_weight` times each token's entropy is
    subtracted; the entropies in `scores` then have a gradient.

    Raises:
        ValueError: a trained token has no log-probability to compare with.
        BadConfig: the loss has the wrong shape or no gradient, or `kl_weight` is set without a reference.
    """
    removed = batch.hint_removed
    if old is not None and removed is not None:
        old = torch.where(removed, batch.logprobs, old)
    behaviour = batch.logprobs if old is None else old
    if bool(torch.isnan(behaviour).any()):
        raise ValueError("trained tokens without recorded log-probabilities: demonstrations belong in imitation_loss")
    result = function(
        Tokens(scores.logprobs, behaviour, batch.logprobs, batch.advantages, scores.entropy.detach(), batch, scores.top)
    )
    losses, metrics = cast("tuple[Tensor, dict[str, Tensor]]", result if isinstance(result, tuple) else (result, {}))
    _check_losses(losses, scores, batch)
    sums = {name: total_of(values.detach().float()) for name, values in metrics.items()}
    log_ratio = scores.logprobs.detach() - behaviour
    sums |= _sums(scores, batch, log_ratio if removed is None else log_ratio[~removed])
    if removed is not None:
        sums["hint_ratio"] = total_of(log_ratio[removed].clamp(-LIMIT, LIMIT).exp())
    if old is not None and correction is not None:
        weight = mismatch_weight(old, batch.logprobs, correction)
        losses = losses * weight
        sums["correction"] = total_of(weight)
    if kl_weight:
        if reference is None:
            raise BadConfig(f"kl_weight is {kl_weight} but there are no log-probabilities of a reference model")
        distance = divergence(scores.logprobs, reference, kl)
        losses = losses + kl_weight * distance
        sums["reference_kl"] = total_of(distance.detach())
    if entropy_weight:
        losses = losses - entropy_weight * scores.entropy
    total = (losses * batch.weights).sum()
    sums["loss"] = torch.stack([total.detach(), total.new_ones(())])
    return total, sums


def _check_losses(losses: Tensor, scores: Scores, batch: Batch) -> None:
    """Check the losses that a loss function returned.

    Raises:
        BadConfig: they have the wrong shape or no gradient.
    """
    if losses.shape != batch.weights.shape:
        raise BadConfig(f"a loss returned {tuple(losses.shape)}; expected {tuple(batch.weights.shape)}, a number per token")
    if not losses.requires_grad and scores.logprobs.requires_grad:
        raise BadConfig("a loss has no gradient: compute it from tokens.logprobs (tokens.entropy is only a measurement)")


def imitation_loss(scores: Scores, batch: Batch) -> tuple[Tensor, Sums]:
    """Return the weighted negative log-likelihood of a micro-batch and its metrics; advantages are ignored.

    The loss is a scalar, in nats; `batch.weights` contain the denominators.
    """
    loss = -(scores.logprobs * batch.weights).sum()
    return loss, {"nll": total_of(-scores.logprobs.detach()), **entropy_sum(scores)}


def level_log_ratio(new: Tensor, old: Tensor, batch: Batch, level: str = "token") -> Tensor:
    """Return log(new / old), [trained]: per token, or the mean over its turn or row (GSPO, arXiv 2507.18071, eq. 14).

    At the levels `turn` and `sequence`, each token has the value of the mean and the gradient of its own
    log-probability. A row with several turns is one sequence, so `sequence` depends on how turns were merged into rows;
    `turn` does not.

    Raises:
        BadConfig: the level is unknown.
    """
    if level not in LEVELS:
        raise BadConfig(f"ratio level is {level!r}; expected one of {', '.join(map(repr, LEVELS))}")
    difference = new - old
    if level == "token":
        return difference.clamp(-LIMIT, LIMIT)
    index = batch.turns if level == "turn" else batch.rows
    size = int(index.max()) + 1 if len(index) else 0
    total = difference.new_zeros(size).index_add(0, index, difference.detach())
    mean = total / torch.bincount(index, minlength=size)
    return mean[index].clamp(-LIMIT, LIMIT) + new - new.detach()


def clipped_losses(
    ratio: Tensor, advantages: Tensor, low: float, high: float, dual_clip: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the losses max(-A*ratio, -A*clip(ratio, 1-low, 1+high)) and a mask of the clipped tokens, both [trained].

    Source: PPO, arXiv 1707.06347, eq. 7; unequal widths are DAPO's clip-higher. `dual_clip` c limits the loss of tokens
    with A < 0 to -A*c (arXiv 1912.09729).
    """
    plain, bounded = -advantages * ratio, -advantages * ratio.clamp(1 - low, 1 + high)
    losses = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if dual_clip is not None:
        most = -advantages * dual_clip
        clipped = clipped | ((advantages < 0) & (losses > most))
        losses = torch.where(advantages < 0, torch.minimum(losses, most), losses)
    return losses, clipped


def mismatch_weight(old: Tensor, engine: Tensor, most: float = 2.0) -> Tensor:
    """Return min(old / engine, most), [trained]: truncated importance sampling between engine and trainer.

    Tokens that no engine sampled (NaN) have weight 1.
    """
    return (old - engine).clamp(-LIMIT, LIMIT).exp().clamp(max=most).nan_to_num(nan=1.0).detach()


def divergence(new: Tensor, reference: Tensor, kind: str = "k3") -> Tensor:
    """Return estimates of KL(new || reference), [trained]: k1 = -x, k2 = x^2/2, k3 = e^x - x - 1, x = reference - new.

    J. Schulman, "Approximating KL divergence" (2020). k1 has no useful gradient as a loss; k3 is never negative.

    Raises:
        BadConfig: the kind is unknown.
    """
    if kind not in KINDS:
        raise BadConfig(f"kl is {kind!r}; expected one of {', '.join(map(repr, KINDS))}")
    x = (reference - new).clamp(-LIMIT, LIMIT)
    if kind == "k1":
        return -x
    return x.square() / 2 if kind == "k2" else x.exp() - x - 1


def add_sums(parts: Iterable[Mapping[str, Tensor]]) -> Sums:
    """Add up the metrics of micro-batches (name -> [2]); an all-reduce of the result adds up processes."""
    sums: Sums = {}
    for part in parts:
        for name, pair in part.items():
            sums[name] = sums[name] + pair if name in sums else pair
    return sums


def means(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Return each metric as one number: a mean over tokens, except `loss`, which is the minimized total."""
    return {name: float(pair[0] if name == "loss" else pair[0] / pair[1].clamp(min=1)) for name, pair in sums.items()}


def entropy_sum(scores: Scores) -> Sums:
    """Return the entropy as a metric without gradient, [2] = (sum, count)."""
    return {"entropy": total_of(scores.entropy.detach())}


def _sums(scores: Scores, batch: Batch, log_ratio: Tensor) -> Sums:
    """Return the metrics `approx_kl`, `entropy`, `logp` and `logp_positive` without gradient, each [2] = (sum, count).

    `logp_positive` is over tokens with A > 0. If it falls while training succeeds, a collapse is beginning.
    """
    positive = batch.advantages > 0
    log_ratio = log_ratio.clamp(-LIMIT, LIMIT)
    return {
        "approx_kl": total_of(log_ratio.exp() - 1 - log_ratio),
        **entropy_sum(scores),
        "logp": total_of(scores.logprobs.detach()),
        "logp_positive": total_of(scores.logprobs.detach()[positive]),
    }


def total_of(values: Tensor) -> Tensor:
    """Return the sum and the number of the values as a tensor [2]; see `Sums`."""
    return torch.stack([values.sum(), values.new_tensor(float(values.numel()))])
