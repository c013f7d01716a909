"""Compute our losses on a server of the Tinker API: by the server's own loss, or linearly from our own gradient.

A server's importance sampling loss has ratio 1 if it gets the log-probabilities that the server has just reported, so
its gradient is that of `-advantage * log p`. With the derivative of any of our losses in place of the advantage, it is
the gradient of that loss. This takes one more forward pass, but no server divides it by anything unknown to us.
"""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import Batch, pack, unpack
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners.tinker.datums import Floats, imitation_datum, placed, policy_datum, scales, scored_datum
from agentgym.trainers.learners.tinker.qualify import Qualification
from agentgym.trainers.learners.tinker.service import ServedAdapter
from agentgym.trainers.losses import policy as losses
from agentgym.trainers.losses.cispo import cispo
from agentgym.trainers.losses.covariance import clip_cov
from agentgym.trainers.losses.policy import Sums, add_sums, policy_loss
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Stage


@dataclass(frozen=True, slots=True)
class Work:
    """The rows of one optimizer step."""

    rows: list[Segment]
    weights: list[Any]
    """Weight of each token's loss: [tokens] per row."""
    old_logprobs: list[Floats]
    """The server's log-probabilities before the step's first update: [tokens] per row."""
    reference: list[Floats] | None
    """Log-probabilities of the model without its adapter, [tokens] per row; None without a KL penalty."""


def native(loss: Stage, config: TrainConfig) -> tuple[str, dict[str, float]] | None:
    """Return the server's loss that equals ours, as (name, {`clip_low_threshold`, `clip_high_threshold`}), or None."""
    if config.kl:
        return None
    low, high = loss.option("clip_low", 0.0), loss.option("clip_high", 0.0)
    if loss.target in (losses.clip, clip_cov):
        plain = loss.option("importance_sampling_level", "token") == "token" and not loss.option("dual_clip", 0.0)
        return ("ppo", {"clip_low_threshold": 1 - low, "clip_high_threshold": 1 + high}) if plain else None
    if loss.target is cispo:
        return "cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 1 + high}
    return None


def policy(trained: ServedAdapter, work: Work, loss: Stage, step: int, config: TrainConfig, server: Qualification) -> Sums:
    """Add the gradient of an update's loss to the server's gradient; return the metrics: name -> [2] = (sum, count)."""
    own = native(loss, config)
    if own is not None and own[0] in server.losses:
        factors = scales(work.rows, server.reduction)
        sent = [
            policy_datum(row, old, row.advantages * weight * _correction(row, old, config.tis_cap), factor)
            for row, weight, old, factor in zip(work.rows, work.weights, work.old_logprobs, factors, strict=True)
        ]
        server_logprobs, _ = trained.backward(sent, *own)
        new = [placed(row, values) for row, values in zip(work.rows, server_logprobs, strict=True)]
        return _ours(work, new, loss, step, config)[0]
    server_logprobs = trained.forward([scored_datum(row.ids.tolist()) for row in work.rows])
    new = [placed(row, values) for row, values in zip(work.rows, server_logprobs, strict=True)]
    sums, pull = _ours(work, new, loss, step, config)
    _linear(trained, work.rows, new, pull, server)
    return sums


def imitation(
    trained: ServedAdapter, rows: Sequence[Segment], weights: Sequence[Any], server: Qualification
) -> list[Floats]:
    """Add the gradient of the weighted log-likelihood to the server's gradient.

    Returns the log-probabilities under the current weights, [tokens] per row.
    """
    if server.reduction == "tokens" and "cross_entropy" in server.losses:
        sent = [imitation_datum(row, weight) for row, weight in zip(rows, weights, strict=True)]
        return [
            placed(row, logprobs) for row, logprobs in zip(rows, trained.backward(sent, "cross_entropy")[0], strict=True)
        ]
    server_logprobs = trained.forward([scored_datum(row.ids.tolist()) for row in rows])
    new = [placed(row, logprobs) for row, logprobs in zip(rows, server_logprobs, strict=True)]
    _linear(trained, rows, new, weights, server)
    return new


def _linear(
    trained: ServedAdapter, rows: Sequence[Segment], new: Sequence[Floats], pull: Sequence[Any], server: Qualification
) -> None:
    """Add the gradient of the sum of `pull * log p` to the server's gradient.

    `new`: the server's current log-probabilities, [tokens] per row. `pull`: [tokens] per row.
    """
    sent = [
        policy_datum(row, logprobs, np.where(row.mask, weight, 0), factor)
        for row, logprobs, weight, factor in zip(rows, new, pull, scales(rows, server.reduction), strict=True)
    ]
    trained.backward(sent, "importance_sampling")


def _correction(row: Segment, old: Floats, most: float) -> Floats:
    """Return min(trainer / engine, most), [tokens], which corrects for slightly different sampler numerics; 1 if unknown."""
    gap = np.clip(old - row.logprobs, -LIMIT, LIMIT)
    return np.nan_to_num(np.minimum(np.exp(gap), most), nan=1.0).astype(np.float32)


def _ours(work: Work, new: Sequence[Floats], loss: Stage, step: int, config: TrainConfig) -> tuple[Sums, list[Floats]]:
    """Return the metrics of our loss, and the loss's negative derivative by each log-probability, [tokens] per row."""
    batches = pack(work.rows, work.weights, config.batch_tokens)
    parts: list[Sums] = []
    pulls: list[torch.Tensor] = []
    for batch in batches:
        logprobs = _flat(batch, new, work.rows).requires_grad_()
        total, sums = policy_loss(
            Scores(logprobs, torch.full_like(logprobs, float("nan")).detach()),
            batch,
            old=_flat(batch, work.old_logprobs, work.rows),
            reference=None if work.reference is None else _flat(batch, work.reference, work.rows),
            function=partial(loss, step=step),
            correction=config.tis_cap,
            kl=config.kl_kind,
            kl_weight=config.kl,
        )
        total.backward()
        pulls.append(-logprobs.grad if logprobs.grad is not None else torch.zeros_like(logprobs))
        parts.append(sums)
    return add_sums(parts), unpack(batches, pulls, work.rows)


def _flat(batch: Batch, values: Sequence[Floats], rows: Sequence[Segment]) -> torch.Tensor:
    return torch.as_tensor(np.concatenate([values[i][rows[i].mask] for i in batch.segments]))
