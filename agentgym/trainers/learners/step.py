"""One step of reinforcement learning: episodes in, updated weights and metrics out."""

# accelerate is typed in parts only
# pyright: reportMissingTypeStubs=false

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.data.minibatches import minibatches
from agentgym.trainers.data.packing import Batch, count, idle, pack, token_weights, unpack
from agentgym.trainers.data.segments import Segment, behaviours, build, mismatches
from agentgym.trainers.learners.critic import TARGET, Critic, explained, targets_of, teaches
from agentgym.trainers.learners.optimizers import set_lr
from agentgym.trainers.losses.interface import factors, resolve_loss
from agentgym.trainers.losses.policy import Sums, Update, add_sums, entropy_sum, imitation_loss, means, policy_loss
from agentgym.trainers.model import layers
from agentgym.trainers.model.attention import choose
from agentgym.trainers.model.logprobs import Scores, policy_logprobs
from agentgym.trainers.model.precision import Masters
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.run.metrics import mismatch
from agentgym.trainers.seam import Stage

Gaps = npt.NDArray[np.float32]
"""Log-probabilities of the trainer minus the engine's, [tokens]."""


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
    ) -> None:
        super().__init__()
        self.model, self.states, self.top = model, states, top
        self.temperature = temperature
        self.layers = layers.prepare(model, gradient_checkpointing=gradient_checkpointing, compiled=compiled)
        self.method = choose(model, attention, compiled=compiled, shared=shared)

    def forward(self, batch: Batch) -> Scores:
        """Return the scores of the trained tokens."""
        with layers.recomputed(self.layers):
            return policy_logprobs(self.model, batch, self.temperature, self.method, states=self.states, top=self.top)


class BaseScorer(Scorer):
    """The policy with its adapters off: the model that they were put into, without a second copy of its weights."""

    def forward(self, batch: Batch) -> Scores:
        """Return the scores of the trained tokens."""
        self.model.disable_adapters()
        try:
            return super().forward(batch)
        finally:
            self.model.enable_adapters()


@dataclass(slots=True)
class TrainedModel:
    """A model with its optimizers, wherever accelerate has put them."""

    accelerator: Any
    scorer: Any
    optimizers: list[Any]
    reference: Any = None
    masters: Masters | None = None
    critic: Critic | None = None

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of every group, as a share of the group's own peak."""
        for optimizer in self.optimizers:
            set_lr(optimizer, lr)


class CannotGoOn(RuntimeError):
    """The loss or the gradient is not finite, or nothing but faults came back from the rollouts."""


def credited(
    groups: Sequence[Group], credit: Credit, negative_advantage_weight: float = 1.0, *, step: int = 0
) -> tuple[list[Episode], list[Any]]:
    """Return the groups' episodes with an array of advantages each, the negative ones weighted; turns note theirs."""
    episodes: list[Episode] = []
    advantages: list[Any] = []
    for group, arrays in zip(groups, credit(groups, step=step), strict=True):
        for episode, array in zip(group, arrays, strict=True):
            values = np.where(array < 0, negative_advantage_weight * array, array)
            episodes.append(episode)
            advantages.append(values)
            if len(values) == len(episode.turns):
                for turn, value in zip(episode.turns, values.tolist(), strict=True):
                    turn.extra["advantage"] = round(value, 6)
    return episodes, advantages


def reinforce(
    learner: TrainedModel,
    groups: Sequence[Group],
    credit: Credit,
    config: TrainConfig,
    step: int,
    loss: Stage | None = None,
) -> dict[str, float]:
    """Update the policy on groups of episodes and return the mean metrics of all updates, over all processes.

    Of several processes all must call it, those without groups too. `loss` is what the configuration names.

    The mismatch of engine and trainer is measured before the first update, while both hold the same weights: over every
    token where the correction needs the trainer's scores ahead of several updates (a pass of its own), else over the first
    mini-batch, whose scores are at hand.
    """
    loss = loss or resolve_loss(config)
    episodes, advantages = credited(groups, credit, config.negative_advantage_weight, step=step)
    segments = build(episodes, advantages)
    needs.attach(episodes, segments, (*loss.attributes["needs"], *(("values", TARGET) if learner.critic else ())))
    again = config.updates > 1 or loss.attributes["present"]
    before = scored(learner, segments, config)["logprobs"] if config.differs and again else None
    before = None if before is None else behaviours(segments, before)
    parts: list[Sums] = []
    norms: list[float] = []
    apart: Gaps = np.empty(0, dtype=np.float32)
    if before:
        needs.place(episodes, segments, ("logprobs",), {"logprobs": before})  # the report shows the mismatch of each token
        apart = mismatches(segments, before)
    for epoch in range(config.epochs):
        for rows in minibatches(segments, groups, config, step, epoch):
            total = _everywhere(learner, count([segments[row] for row in rows], config.loss_aggregation))
            if not total:
                continue
            update = OneUpdate([segments[row] for row in rows], total, before and [before[row] for row in rows])
            for value in _differentiable(learner, _losses(learner, update, config, loss, step)):
                learner.accelerator.backward(value)
            norms.append(_apply(learner, config))
            if learner.critic:
                learner.critic.update(config.grad_clip)
            apart = update.gap() if before is None and not parts else apart
            parts.append(add_sums(update.parts))
    if not parts:
        return {}
    sums, apart = _together(learner, add_sums(parts), apart)
    metrics = explained(means(sums))
    metrics["loss"] = metrics.get("loss", 0.0) / len(parts)  # none where no row has an advantage
    return {**metrics, **mismatch(apart), "grad_norm": float(np.mean(norms))}


@dataclass(frozen=True, slots=True)
class OneUpdate:
    """The rows of one optimizer step, and what was measured on them."""

    segments: list[Segment]
    total: float
    """`count` of these rows over all processes."""
    before: list[npt.NDArray[np.float32]] | None
    """The trainer's log-probabilities before the first update, [tokens] per row."""
    present: list[npt.NDArray[np.float32]] | None = None
    """Those right before this update, where the loss asks for them."""
    parts: list[Sums] = field(default_factory=list[Sums])
    gaps: list[Tensor] = field(default_factory=list[Tensor])
    """What the trainer says minus what the engine said, [tokens] per micro-batch."""

    def gap(self) -> Gaps:
        """Return what the trainer says minus what the engine said."""
        return torch.cat(self.gaps).float().cpu().numpy() if self.gaps else np.empty(0, dtype=np.float32)

    def flat(self) -> Update:
        """Return the trained tokens of all rows one after another."""

        def joined(values: list[Any]) -> Any:
            return np.concatenate([value[row.mask] for value, row in zip(values, self.segments, strict=True)])

        rows = self.segments
        turns = joined([row.turns.astype(np.int64) + 100_000 * row.episode for row in rows])
        return Update(
            advantages=joined([row.advantages for row in rows]),
            logprobs=joined(self.before or [row.logprobs for row in rows]),
            turns=np.unique(turns, return_inverse=True)[1],
            episodes=joined([np.full(len(row), row.episode) for row in rows]),
            extra={name: joined([row.extra[name] for row in rows]) for name in rows[0].extra},
            present=self.present and joined(self.present),
        )


def scored(learner: TrainedModel, segments: list[Segment], config: TrainConfig) -> dict[str, list[npt.NDArray[np.float32]]]:
    """Return `logprobs`, `entropy` and, of a critic, `values` of the trained tokens under the present weights, by row."""
    batches = pack(segments, token_weights(segments), config.batch_tokens, share=config.share_prefixes)
    with torch.no_grad():
        scores = [_measures(learner, learner.scorer(batch)) for batch in even(learner, batches)][: len(batches)]
    names = ("logprobs", "entropy", *(("values",) if learner.critic else ()))
    return {name: unpack(batches, [batch[name] for batch in scores], segments) for name in names}


def _measures(learner: TrainedModel, scores: Scores) -> dict[str, Tensor]:
    """Return what is known of each token by name; hidden states are let go."""
    values = {"values": learner.critic(scores)} if learner.critic else {}
    return {"logprobs": scores.logprobs, "entropy": scores.entropy, **values}


def imitate(learner: TrainedModel, episodes: Sequence[Episode], config: TrainConfig) -> dict[str, float]:
    """Update the policy on demonstrations and return the metrics over all processes; {} where nobody has any."""
    segments = build(episodes)
    total = _everywhere(learner, count(segments, "token"))
    if not total:
        return {}
    weights = token_weights(segments, total=total)
    batches = even(learner, pack(segments, weights, config.batch_tokens, share=config.share_prefixes))
    parts: list[Sums] = []

    def losses() -> Iterator[Tensor]:
        for batch in _in_turn(learner, batches, config):
            loss, sums = imitation_loss(learner.scorer(batch), batch)
            yield loss
            if batch.segments:
                parts.append(sums)

    for loss in _differentiable(learner, losses()):
        learner.accelerator.backward(loss)
    norm = _apply(learner, config)
    return {**means(_together(learner, add_sums(parts), np.empty(0, dtype=np.float32))[0]), "grad_norm": norm}


def _losses(learner: TrainedModel, update: OneUpdate, config: TrainConfig, loss_stage: Stage, step: int) -> Iterator[Tensor]:
    """Give the loss of each micro-batch of an optimizer step; what is measured on the way is added to `update`."""
    rows, before = update.segments, update.before
    constant = config.constant if config.loss_aggregation == "constant" else None
    weights = token_weights(rows, config.loss_aggregation, total=update.total, constant=constant)
    now = scored(learner, rows, config)["logprobs"] if loss_stage.attributes["present"] else None
    if rows and loss_stage.attributes["choose"]:
        weights = chosen(replace(update, present=now), weights, loss_stage, step, config.seed)
    targets = _everywhere(learner, targets_of(rows)) if learner.critic else 0
    if not config.kl:  # a row without advantage has no gradient, unless it teaches the critic: it is only measured
        idle_rows = {i for i, row in enumerate(rows) if not teaches(row, loss_stage.attributes["present"])}
        parts, gaps = _measured(learner, [rows[i] for i in sorted(idle_rows)], config)
        update.parts.extend(parts)
        update.gaps.extend(gaps)
        keep = [i for i in range(len(rows)) if i not in idle_rows]
        rows, weights = [rows[i] for i in keep], [weights[i] for i in keep]
        before = before and [before[i] for i in keep]
    names = (*loss_stage.attributes["needs"], *(("chosen",) if loss_stage.attributes["marks"] else ()))
    packed = pack(rows, weights, config.batch_tokens, share=config.share_prefixes)
    idling = [idle(names).to(learner.accelerator.device)]
    for batch in _in_turn(learner, even(learner, packed, names) or idling, config):
        old = None
        if before is not None and batch.segments:
            old = torch.as_tensor(np.concatenate([before[i][rows[i].mask] for i in batch.segments]))
            old = old.to(learner.accelerator.device)
        reference: Tensor | None = None
        if config.kl:
            with torch.no_grad():
                reference = learner.reference(batch).logprobs
        scores = learner.scorer(batch)
        if config.differs and before is None:  # of a single update, the scores are those from before it
            old = scores.logprobs.detach()
        if batch.segments:  # not what only waits for others
            update.gaps.append(_gap(scores, batch))
        loss, sums = policy_loss(
            scores,
            batch,
            old=old,
            reference=reference,
            function=partial(loss_stage, step=step),
            correction=config.tis_cap,
            kl=config.kl_kind,
            kl_weight=config.kl,
        )
        if learner.critic:
            value_loss, value_sums = learner.critic.loss(scores, batch, targets)
            loss, sums = loss + value_loss, {**sums, **value_sums}
        yield loss
        if batch.segments:
            update.parts.append(sums | _saved(batch, rows) if config.share_prefixes else sums)


def _saved(batch: Batch, rows: list[Segment]) -> Sums:
    """Return how many tokens of a micro-batch's rows were computed with another's, of how many."""
    total = sum(len(rows[i]) for i in batch.segments)
    return {"prefix_tokens_shared": torch.tensor([total - sum(batch.lengths), total], device=batch.ids.device)}


def chosen(update: OneUpdate, weights: list[Any], loss: Stage, step: int, seed: int) -> list[Any]:
    """Return the weights times the factors that a loss chose over the whole update; of one that `marks`, note these."""
    factor = np.asarray(factors(loss, replace(update.flat(), seed=seed), step), dtype=np.float32)
    sizes = [row.trained for row in update.segments]
    if factor.shape != (sum(sizes),) or not np.isfinite(factor).all():
        raise BadConfig(f"choose of loss {loss.name!r} returned {factor.shape}; expected ({sum(sizes)},) finite factors")
    changed = [weight.copy() for weight in weights]
    for weight, row, part in zip(changed, update.segments, np.split(factor, np.cumsum(sizes)[:-1]), strict=True):
        if loss.attributes["marks"]:
            row.extra["chosen"] = np.full(len(row), np.nan, dtype=np.float32)
            row.extra["chosen"][row.mask] = part
        else:
            weight[row.mask] *= part
    return changed


def _measured(learner: TrainedModel, segments: list[Segment], config: TrainConfig) -> tuple[list[Sums], list[Tensor]]:
    """Return the entropy, and what the trainer says minus what the engine said, of rows without a backward pass."""
    batches = even(learner, pack(segments, token_weights(segments), config.batch_tokens, share=config.share_prefixes))
    with torch.no_grad():
        scored = [(batch, learner.scorer(batch)) for batch in batches]
    filled = [(batch, scores) for batch, scores in scored if batch.segments]
    return [entropy_sum(scores) for _, scores in filled], [_gap(scores, batch) for batch, scores in filled]


def _gap(scores: Scores, batch: Batch) -> Tensor:
    """Return what the trainer says of each token minus what the engine said; NaN where a hint was removed in between."""
    gap = scores.logprobs.detach() - batch.logprobs
    return gap if batch.hint_removed is None else gap.masked_fill(batch.hint_removed, float("nan"))


def _everywhere(learner: TrainedModel, number: float) -> float:
    """Return the sum of a number over all processes."""
    accelerator = learner.accelerator
    if accelerator.num_processes == 1:
        return number
    return float(accelerator.reduce(torch.tensor(number, device=accelerator.device, dtype=torch.float64)))


def _together(learner: TrainedModel, sums: Sums, gaps: Gaps) -> tuple[Sums, Gaps]:
    """Return the sums and the gaps of all processes: no mean can be put together from means, no quantile from quantiles."""
    if learner.accelerator.num_processes == 1:
        return sums, gaps
    own = {name: pair.cpu() for name, pair in sums.items()}
    by_process = cast("list[tuple[Sums, Gaps]]", gather_object([(own, gaps)]))
    return add_sums(pair[0] for pair in by_process), np.concatenate([pair[1] for pair in by_process])


def even(learner: TrainedModel, batches: list[Batch], extra: Sequence[str] = ()) -> list[Batch]:
    """Give every process equally many micro-batches (data-parallel wrappers wait for one another), on its device."""
    accelerator = learner.accelerator
    if accelerator.num_processes > 1:
        most = int(accelerator.gather(torch.tensor([len(batches)], device=accelerator.device)).max())
        batches = batches + [idle(extra)] * (most - len(batches))
    return [batch.to(accelerator.device) for batch in batches]


def _differentiable(learner: TrainedModel, losses: Iterable[Tensor]) -> Iterator[Tensor]:
    """Give each loss as its gradient is to be computed before the next is asked for; CannotGoOn where one is not finite."""
    for loss in losses:
        if not bool(torch.isfinite(loss)):
            raise CannotGoOn(f"the loss is {float(loss.detach())}; try a lower --lr or --grad-clip")
        yield loss * learner.accelerator.num_processes  # data-parallel wrappers average gradients
        if learner.masters is not None:
            learner.masters.collect()


def _reduced_once(learner: TrainedModel, config: TrainConfig) -> bool:
    return config.gradient_reduction == "update" and learner.accelerator.num_processes > 1


def _in_turn(learner: TrainedModel, batches: list[Batch], config: TrainConfig) -> Generator[Batch]:
    """Yield micro-batches; with `gradient_reduction` `update` the gradients of all but the last are not reduced.

    The last backward pass then reduces what all have added up; masters have taken that over already, and `_apply` does it.
    """
    once = _reduced_once(learner, config)
    for number, batch in enumerate(batches, 1):
        alone = once and (number < len(batches) or learner.masters is not None)
        with learner.accelerator.no_sync(learner.scorer) if alone else nullcontext():
            yield batch


def _apply(learner: TrainedModel, config: TrainConfig) -> float:
    updated = learner.scorer if learner.masters is None else learner.masters
    if learner.masters is not None and _reduced_once(learner, config):
        learner.masters.reduce(learner.accelerator.num_processes)
    norm = float(learner.accelerator.clip_grad_norm_(list(updated.parameters()), config.grad_clip))
    if not np.isfinite(norm):
        raise CannotGoOn(f"the gradient's norm is {norm}; try a lower --lr or --grad-clip")
    for optimizer in learner.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if learner.masters is not None:
        learner.masters.publish()
    return norm
