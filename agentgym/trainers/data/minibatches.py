"""Mini-batches from credited groups: turns become rows of tokens, dealt into optimizer steps with a weight per token."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import count, token_weights
from agentgym.trainers.data.segments import Segment, behaviours, build, mismatches
from agentgym.trainers.losses.interface import factors
from agentgym.trainers.losses.policy import Update
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.seam import Stage

Floats = npt.NDArray[np.float32]


@dataclass(slots=True)
class TrainingRows:
    """The episodes of a step as rows of tokens with advantages."""

    episodes: list[Episode]
    rows: list[Segment]
    old_logprobs: list[Floats] | None = None
    """The trainer's log-probabilities before the first update, [tokens] per row; None: ratios use the engine's."""
    gaps: Floats = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    """The trainer's log-probabilities minus the engine's, [trained tokens of all rows]; empty until they are set."""

    def set_old_logprobs(self, scored: Sequence[Floats] | None) -> None:
        """Store log-probabilities that the trainer computed before the first update as the old ones, and set `gaps`.

        `scored`: [tokens] per row; rows from which a hint was removed keep the engine's. With None, nothing changes, and
        ratios use the engine's log-probabilities.
        """
        if scored is not None:
            self.old_logprobs = behaviours(self.rows, scored)
            needs.place(self.episodes, self.rows, ("logprobs",), {"logprobs": self.old_logprobs})  # the report shows them
            self.gaps = mismatches(self.rows, self.old_logprobs)


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """The rows of one optimizer step; all rows of an episode are together."""

    rows: list[Segment]
    weights: list[Floats]
    """The weight of each token's loss in the sum over all processes, [tokens] per row."""
    old_logprobs: list[Floats] | None = None
    """The trainer's log-probabilities before the first update of the step: [tokens] per row; None for the engine's."""


def training_rows(
    groups: Sequence[Group],
    advantages: Sequence[Sequence[npt.NDArray[np.floating]]],
    *,
    negative_weight: float = 1.0,
    extra: Sequence[str] = (),
) -> TrainingRows:
    """Lay out credited groups as rows of tokens; negative advantages are multiplied by `negative_weight`.

    `advantages`: an array [turns] or [output tokens] per group and episode; values per turn are also stored in
    `turn.extra["advantage"]`. `extra`: keys of `turn.extra` that the rows contain per token.
    """
    episodes, weighted = credited(groups, advantages, negative_weight)
    rows = build(episodes, weighted)
    needs.attach(episodes, rows, extra)
    return TrainingRows(episodes, rows)


def credited(
    groups: Sequence[Group], advantages: Sequence[Sequence[npt.NDArray[np.floating]]], negative_weight: float = 1.0
) -> tuple[list[Episode], list[npt.NDArray[np.floating]]]:
    """Return the episodes of groups and their advantages, with negative ones multiplied by `negative_weight`.

    An episode's advantages are [turns] or [output tokens of all turns, in order]; values per turn are also stored in
    `turn.extra["advantage"]`.
    """
    episodes: list[Episode] = []
    weighted: list[npt.NDArray[np.floating]] = []
    for group, arrays in zip(groups, advantages, strict=True):
        for episode, array in zip(group, arrays, strict=True):
            values = np.where(array < 0, negative_weight * array, array)
            episodes.append(episode)
            weighted.append(values)
            if len(values) == len(episode.turns):
                for turn, value in zip(episode.turns, values.tolist(), strict=True):
                    turn.extra["advantage"] = round(value, 6)
    return episodes, weighted


def minibatches(
    training: TrainingRows,
    loss: Stage,
    config: TrainConfig,
    step: int,
    *,
    gather: Callable[[list[float]], list[float]],
    score: Callable[[list[Segment]], needs.Values],
) -> Iterator[MiniBatch]:
    """Yield the mini-batches of a step, one per update; skip those without a trained token in any process.

    `gather` returns the numbers of all processes. `score` returns the trainer's current log-probabilities, for a loss
    that needs them. Both wait for all processes, so every process must iterate to the end.
    """
    constant = config.constant if config.loss_aggregation == "constant" else None
    for epoch in range(config.epochs):
        for dealt in deal(training.rows, config, step, epoch):
            rows = [training.rows[i] for i in dealt]
            total = sum(gather([count(rows, config.loss_aggregation)]))
            if not total:
                continue
            old = training.old_logprobs and [training.old_logprobs[i] for i in dealt]
            weights = token_weights(rows, config.loss_aggregation, total=total, constant=constant)
            present = score(rows)["logprobs"] if loss.attributes["present"] else None
            if rows and loss.attributes["choose"]:
                update = replace(flat(rows, old, present), seed=config.seed)
                weights = chosen(rows, update, weights, loss, step)
            yield MiniBatch(rows, weights, old)


def deal(rows: Sequence[Segment], config: TrainConfig, step: int, epoch: int) -> list[list[int]]:
    """Deal the rows into mini-batches, all rows of an episode together, in an order drawn from seed, step and epoch.

    Episodes of a group are spread even if their prefixes are shared: mini-batches of whole groups would share more, but
    policies that are trained on them succeed less (results/benchmarks.md, "./dev train").
    """
    episodes = sorted({row.episode for row in rows})
    order = generator("minibatches", config.seed, step, epoch).permutation(len(episodes))
    part = {episodes[int(j)]: i % config.minibatches for i, j in enumerate(order)}
    dealt: list[list[int]] = [[] for _ in range(config.minibatches)]
    for place, row in enumerate(rows):
        dealt[part[row.episode]].append(place)
    return dealt


def flat(rows: Sequence[Segment], old: Sequence[Floats] | None, present: Sequence[Floats] | None = None) -> Update:
    """Return the trained tokens of all rows, concatenated, in the form that a loss's `choose` takes.

    `old`: log-probabilities before the update, [tokens] per row; None takes the engine's. `present`: the current
    log-probabilities, [tokens] per row; None if the loss does not need them.
    """

    def joined(values: Sequence[Any]) -> Any:
        return np.concatenate([value[row.mask] for value, row in zip(values, rows, strict=True)])

    turns = joined([row.turns.astype(np.int64) + 100_000 * row.episode for row in rows])
    return Update(
        advantages=joined([row.advantages for row in rows]),
        logprobs=joined(old or [row.logprobs for row in rows]),
        turns=np.unique(turns, return_inverse=True)[1],
        episodes=joined([np.full(len(row), row.episode) for row in rows]),
        extra={name: joined([row.extra[name] for row in rows]) for name in rows[0].extra},
        present=present and joined(present),
    )


def chosen(rows: Sequence[Segment], update: Update, weights: Sequence[Floats], loss: Stage, step: int) -> list[Floats]:
    """Return the token weights multiplied by the factors from the loss's `choose`, [tokens] per row.

    If the loss `marks`, the weights stay the same and the factors are stored in `row.extra["chosen"]` instead.

    Raises:
        BadConfig: `choose` returned another shape or numbers that are not finite.
    """
    factor = np.asarray(factors(loss, update, step), dtype=np.float32)
    sizes = [row.trained for row in rows]
    if factor.shape != (sum(sizes),) or not np.isfinite(factor).all():
        raise BadConfig(f"choose of loss {loss.name!r} returned {factor.shape}; expected ({sum(sizes)},) finite factors")
    changed = [weight.copy() for weight in weights]
    for weight, row, part in zip(changed, rows, np.split(factor, np.cumsum(sizes)[:-1]), strict=True):
        if loss.attributes["marks"]:
            row.extra["chosen"] = np.full(len(row), np.nan, dtype=np.float32)
            row.extra["chosen"][row.mask] = part
        else:
            weight[row.mask] *= part
    return changed
