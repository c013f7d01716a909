"""One update of a model in this process: losses of rows, gradients, and the optimizer step."""

# accelerate is typed in parts only
# pyright: reportMissingTypeStubs=false

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from agentgym.episodes.episode import Episode
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.minibatches import MiniBatch
from agentgym.trainers.data.packing import Batch, count, idle, pack, token_weights, unpack
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.learners.critic import Critic, targets_of, teaches
from agentgym.trainers.learners.optimizers import set_lr
from agentgym.trainers.learners.updates import UpdateResult
from agentgym.trainers.losses.policy import Sums, add_sums, entropy_sum, imitation_loss, means, policy_loss
from agentgym.trainers.model import layers
from agentgym.trainers.model.attention import choose
from agentgym.trainers.model.logprobs import policy_logprobs
from agentgym.trainers.model.precision import MasterWeights
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.seam import Stage


class Scorer(nn.Module):
    """The policy as a function of a micro-batch, so that data-parallel wrappers see one forward pass."""

    def __init__(
        self,
        model: Any,
        temperature: float,
        attention: str = "auto",
        *,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        shared: bool = False,
        states: bool = False,
        top: int = 0,
        entropy_gradient: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.states, self.top, self.entropy_gradient = model, states, top, entropy_gradient
        self.temperature = temperature
        self.layers = layers.prepare(model, gradient_checkpointing=gradient_checkpointing, compiled=compiled)
        self.method = choose(model, attention, compiled=compiled, shared=shared)

    def forward(self, batch: Batch) -> Scores:
        """Return the scores of the trained tokens, [trained] each."""
        with layers.recomputed(self.layers):
            return policy_logprobs(
                self.model,
                batch,
                self.temperature,
                self.method,
                states=self.states,
                top=self.top,
                entropy_gradient=self.entropy_gradient,
            )


class BaseScorer(Scorer):
    """The policy with its adapters off: the base model, without a second copy of its weights."""

    def forward(self, batch: Batch) -> Scores:
        """Return the scores of the trained tokens, [trained] each."""
        self.model.disable_adapters()
        try:
            return super().forward(batch)
        finally:
            self.model.enable_adapters()


@dataclass(slots=True)
class TrainedModel:
    """A model and its optimizers, on the devices that accelerate chose."""

    accelerator: Any
    scorer: Any
    optimizers: list[Any]
    reference: Any = None
    masters: MasterWeights | None = None
    critic: Critic | None = None

    def set_lr(self, lr: float) -> None:
        """Set each parameter group's learning rate to `lr` times the group's `share`."""
        for optimizer in self.optimizers:
            set_lr(optimizer, lr)


class CannotContinue(RuntimeError):
    """Raised if a run cannot continue.

    The loss or the gradient is not finite, too many episodes are faults, or the engine sampled from other weights.
    """


@dataclass(slots=True)
class StepMeasures:
    """Measurements of one optimizer step, collected while its losses are computed."""

    parts: list[Sums] = field(default_factory=list[Sums])
    """Metrics of each micro-batch: name -> [2] = (sum, count)."""
    gaps: list[Tensor] = field(default_factory=list[Tensor])
    """The trainer's minus the engine's log-probabilities, [trained] per micro-batch."""

    def updated(self, norm: float) -> UpdateResult:
        """Return the result of the update; `norm` is the gradient's norm."""
        return UpdateResult(add_sums(self.parts), self.gaps, norm)


def scored(learner: TrainedModel, segments: list[Segment], config: TrainConfig) -> dict[str, list[npt.NDArray[np.float32]]]:
    """Return `logprobs`, `entropy` and, with a critic, `values` of the trained tokens, [tokens] per row."""
    batches = pack(segments, token_weights(segments), config.batch_tokens, share=config.share_prefixes)
    with torch.no_grad():
        scores = [_measures(learner, learner.scorer(batch)) for batch in even(learner, batches)][: len(batches)]
    names = ("logprobs", "entropy", *(("values",) if learner.critic else ()))
    return {name: unpack(batches, [batch[name] for batch in scores], segments) for name in names}


def _measures(learner: TrainedModel, scores: Scores) -> dict[str, Tensor]:
    """Return `logprobs`, `entropy` and, with a critic, `values` of the trained tokens, [trained] each."""
    values = {"values": learner.critic(scores)} if learner.critic else {}
    return {"logprobs": scores.logprobs, "entropy": scores.entropy, **values}


def imitate(learner: TrainedModel, episodes: Sequence[Episode], config: TrainConfig) -> dict[str, float]:
    """Update the policy on demonstrations; return the metrics over all processes, or {} if there are no episodes."""
    segments = build(episodes)
    total = _everywhere(learner, count(segments, "token"))
    if not total:
        return {}
    weights = token_weights(segments, total=total)
    batches = even(learner, pack(segments, weights, config.batch_tokens, share=config.share_prefixes))
    parts: list[Sums] = []

    def all_losses() -> Iterator[Tensor]:
        for batch in _in_turn(learner, batches, config):
            loss, sums = imitation_loss(learner.scorer(batch), batch)
            yield loss
            if batch.segments:
                parts.append(sums)

    for loss in differentiable(learner, all_losses()):
        learner.accelerator.backward(loss)
    norm = apply(learner, config)
    return {**means(_together(learner, add_sums(parts))), "grad_norm": norm}


def losses(
    learner: TrainedModel, minibatch: MiniBatch, measured: StepMeasures, config: TrainConfig, loss: Stage, step: int
) -> Iterator[Tensor]:
    """Yield the loss of each micro-batch of an optimizer step, and add its measurements to `measured`.

    Each loss is a scalar. Rows without a gradient are only measured.
    """
    rows, weights, old_logprobs = minibatch.rows, minibatch.weights, minibatch.old_logprobs
    targets = _everywhere(learner, targets_of(rows)) if learner.critic else 0
    if not (config.kl or config.entropy_bonus):  # a row without advantage has no gradient, unless it teaches the critic
        idle_rows = {i for i, row in enumerate(rows) if not teaches(row, loss.attributes["present"])}
        parts, gaps = _measured(learner, [rows[i] for i in sorted(idle_rows)], config)
        measured.parts.extend(parts)
        measured.gaps.extend(gaps)
        keep = [i for i in range(len(rows)) if i not in idle_rows]
        rows, weights = [rows[i] for i in keep], [weights[i] for i in keep]
        old_logprobs = old_logprobs and [old_logprobs[i] for i in keep]
    names = (*loss.attributes["needs"], *(("chosen",) if loss.attributes["marks"] else ()))
    packed = pack(rows, weights, config.batch_tokens, share=config.share_prefixes)
    idling = [idle(names).to(learner.accelerator.device)]
    for batch in _in_turn(learner, even(learner, packed, names) or idling, config):
        old = None
        if old_logprobs is not None and batch.segments:
            old = torch.as_tensor(np.concatenate([old_logprobs[i][rows[i].mask] for i in batch.segments]))
            old = old.to(learner.accelerator.device)
        reference: Tensor | None = None
        if config.kl:
            with torch.no_grad():
                reference = learner.reference(batch).logprobs
        scores = learner.scorer(batch)
        if config.differs and old_logprobs is None:  # in a single update, the scores are those before it
            old = scores.logprobs.detach()
        if batch.segments:  # skip idle micro-batches
            measured.gaps.append(_gap(scores, batch))
        value, sums = policy_loss(
            scores,
            batch,
            old=old,
            reference=reference,
            function=partial(loss, step=step),
            correction=config.tis_cap,
            kl=config.kl_kind,
            kl_weight=config.kl,
            entropy_weight=config.entropy_bonus,
        )
        if learner.critic:
            value_loss, value_sums = learner.critic.loss(scores, batch, targets)
            value, sums = value + value_loss, {**sums, **value_sums}
        yield value
        if batch.segments:
            measured.parts.append(sums | _saved(batch, rows) if config.share_prefixes else sums)


def _saved(batch: Batch, rows: list[Segment]) -> Sums:
    """Return the metric `prefix_tokens_shared`: [2] = (tokens that shared prefixes save, tokens of the batch's rows)."""
    total = sum(len(rows[i]) for i in batch.segments)
    return {"prefix_tokens_shared": torch.tensor([total - sum(batch.lengths), total], device=batch.ids.device)}


def _measured(learner: TrainedModel, segments: list[Segment], config: TrainConfig) -> tuple[list[Sums], list[Tensor]]:
    """Return entropy sums and gaps (trainer minus engine log-probability) per micro-batch, without computing a gradient."""
    batches = even(learner, pack(segments, token_weights(segments), config.batch_tokens, share=config.share_prefixes))
    with torch.no_grad():
        scored = [(batch, learner.scorer(batch)) for batch in batches]
    filled = [(batch, scores) for batch, scores in scored if batch.segments]
    return [entropy_sum(scores) for _, scores in filled], [_gap(scores, batch) for batch, scores in filled]


def _gap(scores: Scores, batch: Batch) -> Tensor:
    """Return the trainer's minus the engine's log-probabilities, [trained]; NaN where a hint was removed."""
    gap = scores.logprobs.detach() - batch.logprobs
    return gap if batch.hint_removed is None else gap.masked_fill(batch.hint_removed, float("nan"))


def _everywhere(learner: TrainedModel, number: float) -> float:
    """Return the sum of a number over all processes."""
    accelerator = learner.accelerator
    if accelerator.num_processes == 1:
        return number
    return float(accelerator.reduce(torch.tensor(number, device=accelerator.device, dtype=torch.float64)))


def _together(learner: TrainedModel, sums: Sums) -> Sums:
    """Return the sums over all processes; unlike means, sums and counts can be added."""
    if learner.accelerator.num_processes == 1:
        return sums
    own = {name: pair.cpu() for name, pair in sums.items()}
    return add_sums(cast("list[Sums]", gather_object([own])))


def even(learner: TrainedModel, batches: list[Batch], extra: Sequence[str] = ()) -> list[Batch]:
    """Return the micro-batches on the learner's device, padded with idle ones to the same number in every process.

    Data-parallel wrappers wait for one another at each forward pass.
    """
    accelerator = learner.accelerator
    if accelerator.num_processes > 1:
        most = int(accelerator.gather(torch.tensor([len(batches)], device=accelerator.device)).max())
        batches = batches + [idle(extra)] * (most - len(batches))
    return [batch.to(accelerator.device) for batch in batches]


def differentiable(learner: TrainedModel, losses: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield each loss for a backward pass; with masters, collect the gradient before computing the next loss.

    Each yielded loss is a scalar, multiplied by the number of processes because data-parallel wrappers average gradients.

    Raises:
        CannotContinue: a loss is not finite.
    """
    for loss in losses:
        if not bool(torch.isfinite(loss)):
            raise CannotContinue(f"the loss is {float(loss.detach())}; try a lower --lr or --grad-clip")
        yield loss * learner.accelerator.num_processes  # data-parallel wrappers average gradients
        if learner.masters is not None:
            learner.masters.collect()


def _reduced_once(learner: TrainedModel, config: TrainConfig) -> bool:
    return config.gradient_reduction == "update" and learner.accelerator.num_processes > 1


def _in_turn(learner: TrainedModel, batches: list[Batch], config: TrainConfig) -> Generator[Batch]:
    """Yield micro-batches; with `gradient_reduction = "update"`, gradients are reduced only once, not per micro-batch.

    The last backward pass then reduces the accumulated sum; with masters, which collect the gradients, `apply` reduces it.
    """
    once = _reduced_once(learner, config)
    for number, batch in enumerate(batches, 1):
        alone = once and (number < len(batches) or learner.masters is not None)
        with learner.accelerator.no_sync(learner.scorer) if alone else nullcontext():
            yield batch


def apply(learner: TrainedModel, config: TrainConfig) -> float:
    """Update all weights with the accumulated gradients and return the gradients' norm before clipping.

    Raises:
        CannotContinue: the norm is not finite.
    """
    updated = learner.scorer if learner.masters is None else learner.masters
    if learner.masters is not None and _reduced_once(learner, config):
        learner.masters.reduce(learner.accelerator.num_processes)
    norm = float(learner.accelerator.clip_grad_norm_(list(updated.parameters()), config.grad_clip))
    if not np.isfinite(norm):
        raise CannotContinue(f"the gradient's norm is {norm}; try a lower --lr or --grad-clip")
    for optimizer in learner.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if learner.masters is not None:
        learner.masters.publish()
    return norm
