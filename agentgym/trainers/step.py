"""One step of reinforcement learning: episodes in, updated weights and metrics out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agentgym.episode import Episode, Group
from agentgym.seeding import generator
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit
from agentgym.trainers.logprobs import Scores, policy_logprobs
from agentgym.trainers.losses import Sums, add_sums, imitation_loss, means, policy_loss
from agentgym.trainers.packing import Batch, count, pack, token_weights
from agentgym.trainers.segments import Segment, build


class Scorer(nn.Module):
    """The policy as a function of a micro-batch, so that data-parallel wrappers see one forward pass."""

    def __init__(self, model: Any, temperature: float) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature

    def forward(self, batch: Batch) -> Scores:
        """Return the scores of the trained tokens."""
        return policy_logprobs(self.model, batch, self.temperature)


@dataclass(slots=True)
class Learner:
    """The policy with its optimizers, wherever accelerate has put them."""

    accelerator: Any
    scorer: Any
    optimizers: list[Any]
    reference: Any = None

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of every group, as a share of the group's own peak."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group.get("share", 1.0)


class NotFinite(RuntimeError):
    """The loss or the gradient is NaN or infinite."""


def credited(groups: Sequence[Group], credit: Credit) -> tuple[list[Episode], list[Any]]:
    """Return the groups' episodes with an array of advantages each; the advantages are noted in the turns too."""
    episodes: list[Episode] = []
    advantages: list[Any] = []
    for group, arrays in zip(groups, credit(groups), strict=True):
        for episode, values in zip(group, arrays, strict=True):
            episodes.append(episode)
            advantages.append(values)
            if len(values) == len(episode.turns):
                for turn, value in zip(episode.turns, values.tolist(), strict=True):
                    turn.extra["advantage"] = round(value, 6)
    return episodes, advantages


def reinforce(learner: Learner, groups: Sequence[Group], credit: Credit, config: TrainConfig, step: int) -> dict[str, float]:
    """Update the policy on groups of episodes and return the mean metrics of all updates."""
    segments = build(*credited(groups, credit))
    parts: list[Sums] = []
    norms: list[float] = []
    first: Sums = {}
    for epoch in range(config.epochs):
        for number, rows in enumerate(_minibatches(segments, config, step, epoch)):
            sums, norm = _update(learner, rows, config)
            if not first:
                first = sums
            parts.append(sums)
            norms.append(norm)
            del number
    found = means(add_sums(parts))
    found["loss"] /= max(len(parts), 1)
    # Before the first update engine and trainer hold the same weights, so any difference is a mismatch of the two.
    found["mismatch_kl"] = means(first).get("approx_kl", 0.0)
    return {**found, "grad_norm": float(np.mean(norms)) if norms else 0.0}


def imitate(learner: Learner, episodes: Sequence[Episode], config: TrainConfig) -> dict[str, float]:
    """Update the policy on demonstrations and return the metrics."""
    segments = build(episodes)
    batches = _batches(learner, segments, "token", None, config.batch_tokens)
    parts: list[Sums] = []
    for batch in batches:
        loss, sums = imitation_loss(learner.scorer(batch), batch)
        _backward(learner, loss)
        parts.append(sums)
    norm = _apply(learner, config.grad_clip)
    return {**means(add_sums(parts)), "grad_norm": norm}


def _minibatches(segments: list[Segment], config: TrainConfig, step: int, epoch: int) -> list[list[Segment]]:
    """Deal the rows into mini-batches, all rows of an episode together, by a draw that depends on seed and step."""
    episodes = sorted({segment.episode for segment in segments})
    order = generator("minibatches", config.seed, step, epoch).permutation(len(episodes))
    part = {episodes[int(j)]: i % config.minibatches for i, j in enumerate(order)}
    dealt: list[list[Segment]] = [[] for _ in range(config.minibatches)]
    for segment in segments:
        dealt[part[segment.episode]].append(segment)
    return [rows for rows in dealt if rows]


def _update(learner: Learner, rows: list[Segment], config: TrainConfig) -> tuple[Sums, float]:
    """Take one optimizer step."""
    constant = config.constant if config.weighing == "constant" else None
    batches = _batches(learner, rows, config.weighing, constant, config.batch_tokens)
    parts: list[Sums] = []
    for batch in batches:
        reference: Tensor | None = None
        if config.kl:
            with torch.no_grad():
                reference = learner.reference(batch).logprobs
        loss, sums = policy_loss(
            learner.scorer(batch),
            batch,
            reference=reference,
            level=config.ratio,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            kl_weight=config.kl,
        )
        _backward(learner, loss)
        parts.append(sums)
    return add_sums(parts), _apply(learner, config.grad_clip)


def _batches(learner: Learner, rows: list[Segment], weighing: str, constant: float | None, tokens: int) -> list[Batch]:
    """Pack rows with denominators counted over all processes; every process gets equally many micro-batches."""
    accelerator = learner.accelerator
    total = count(rows, weighing)
    if accelerator.num_processes > 1:
        total = int(accelerator.reduce(torch.tensor(total, device=accelerator.device)))
    batches = pack(rows, token_weights(rows, weighing, total=total, constant=constant), tokens)
    if accelerator.num_processes > 1:
        most = int(accelerator.gather(torch.tensor([len(batches)], device=accelerator.device)).max())
        batches += [replace(batches[-1], weights=torch.zeros_like(batches[-1].weights))] * (most - len(batches))
    return [batch.to(accelerator.device) for batch in batches]


def _backward(learner: Learner, loss: Tensor) -> None:
    if not bool(torch.isfinite(loss)):
        raise NotFinite(f"the loss is {float(loss)}")
    learner.accelerator.backward(loss * learner.accelerator.num_processes)  # data-parallel wrappers average gradients


def _apply(learner: Learner, grad_clip: float) -> float:
    norm = float(learner.accelerator.clip_grad_norm_(learner.scorer.parameters(), grad_clip))
    if not np.isfinite(norm):
        raise NotFinite(f"the gradient's norm is {norm}")
    for optimizer in learner.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return norm
