"""Rows gathered into micro-batches of bounded size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym.errors import BadConfig
from agentgym.trainers.data.prefixes import Layout, layouts
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.model.tree import Tree

LOSS_AGGREGATIONS = ("token", "turn", "episode", "episode-sum", "constant")


@dataclass(slots=True)
class Batch:
    """One micro-batch: rows padded on the right, and flat arrays over the tokens that are trained.

    Rows have nearly equal lengths, so padding is rare; being on the right, it is out of sight of every real token of a
    causal model, and no mask is needed. A trained token is predicted by the one before it: its place is
    an index into the flattened [rows * tokens] hidden states of the predecessors.

    Rows that share their prefixes lie in a `tree` instead: `ids` is its one sequence, `lengths` and `counts` are those of
    its spans, and what several rows would have computed alike is in `places` and `targets` once (`shares`).
    """

    ids: Tensor  # [rows, tokens] int64
    places: Tensor  # [scored] int64
    targets: Tensor  # [scored] int64
    advantages: Tensor  # [trained] float32
    logprobs: Tensor  # [trained] float32, the engine's; NaN where unknown
    weights: Tensor  # [trained] float32, what each token's loss counts in the sum
    turns: Tensor  # [trained] int64, which turn of the micro-batch
    rows: Tensor  # [trained] int64, which row of the micro-batch
    lengths: tuple[int, ...]  # [rows], padding left out
    segments: tuple[int, ...] = ()
    """Indices of the rows in what `pack` was given; trained tokens lie in this order."""
    counts: tuple[int, ...] = ()  # [rows], trained tokens of each, counted where they are not given
    extra: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """By name, what a loss needs to know of each token: [trained]."""
    temperatures: Tensor | None = None  # [scored] float32, NaN for the run's own; None where all are
    tree: Tree | None = None
    shares: Tensor | None = None  # [trained] int64, which of the scored tokens each is; None where scored are the trained
    hint_removed: Tensor | None = None  # [trained] bool, sampled with a hint that the row lacks; None where none was

    def __post_init__(self) -> None:
        if not self.counts:
            counted = np.bincount(self.rows.cpu().numpy(), minlength=len(self.lengths))
            self.counts = tuple(int(number) for number in counted)

    @property
    def trained(self) -> int:
        """How many tokens are trained."""
        return len(self.weights)

    def to(self, device: str | torch.device) -> "Batch":
        """Return the micro-batch on another device."""
        flat = (tensor.to(device) for tensor in self._flat())
        extra = {name: tensor.to(device) for name, tensor in self.extra.items()}
        moved = Batch(
            self.ids.to(device), *flat, lengths=self.lengths, segments=self.segments, counts=self.counts, extra=extra
        )
        moved.temperatures = None if self.temperatures is None else self.temperatures.to(device)
        moved.tree, moved.shares = self.tree, None if self.shares is None else self.shares.to(device)
        moved.hint_removed = None if self.hint_removed is None else self.hint_removed.to(device)
        return moved

    def _flat(self) -> tuple[Tensor, ...]:
        return (self.places, self.targets, self.advantages, self.logprobs, self.weights, self.turns, self.rows)


def idle(extra: Sequence[str] = ()) -> Batch:
    """Return a row of two tokens without weight, of no segment: what a process computes when only others have work.

    `extra` names what a loss wants to know of each token: 0 here.
    """
    index, number = torch.zeros(1, dtype=torch.int64), torch.zeros(1)
    known = {name: number for name in extra}
    return Batch(index.new_zeros((1, 2)), index, index, number, number, number, index, index, (2,), extra=known)


def pack(
    segments: Sequence[Segment], weights: Sequence[npt.NDArray[np.float32]], tokens: int, *, share: bool = False
) -> list[Batch]:
    """Return micro-batches of at most `tokens` tokens, padding included (a longer row makes one of its own).

    Rows are sorted by length, longest first, so that memory is at its peak in the first micro-batch. `weights` come
    from `token_weights` over the whole optimizer step: the gradient is then the same whatever `tokens` is. `share`: lay
    rows out as trees in which a prefix that they have in common is there once, where that saves enough.
    """
    if tokens < 1:
        raise BadConfig(f"tokens per micro-batch is {tokens}; expected at least 1")
    trees = layouts([segment.ids for segment in segments], tokens) if share else None
    if trees is not None:
        return [_tree_batch([segments[i] for i in tree.rows], [weights[i] for i in tree.rows], tree) for tree in trees]
    order = sorted(range(len(segments)), key=lambda i: (-len(segments[i]), i))
    batches: list[Batch] = []
    start = 0
    while start < len(order):
        width = len(segments[order[start]])
        stop = start + max(tokens // width, 1)
        numbers = order[start:stop]
        batches.append(_batch([segments[i] for i in numbers], [weights[i] for i in numbers], tuple(numbers)))
        start = stop
    return batches


def _batch(segments: Sequence[Segment], weights: Sequence[npt.NDArray[np.float32]], numbers: tuple[int, ...]) -> Batch:
    lengths = [len(segment) for segment in segments]
    width = max(lengths)
    ids = np.zeros((len(segments), width), dtype=np.int64)
    places: list[npt.NDArray[np.int64]] = []
    for i, segment in enumerate(segments):
        ids[i, : lengths[i]] = segment.ids
        places.append(np.flatnonzero(segment.mask) + (i * width - 1))
    return _flat_batch(segments, weights, ids, np.concatenate(places), tuple(lengths), numbers)


def _tree_batch(segments: Sequence[Segment], weights: Sequence[npt.NDArray[np.float32]], layout: Layout) -> Batch:
    """Return rows as a tree; of trained tokens with one prefix, id and temperature, one is scored for all."""
    rows = zip(segments, layout.where, strict=True)
    places = np.concatenate([where[np.flatnonzero(segment.mask) - 1] for segment, where in rows])
    batch = _flat_batch(segments, weights, layout.ids[None], places, layout.tree.lengths, layout.rows)
    heat = np.zeros(len(places)) if batch.temperatures is None else batch.temperatures.numpy()
    keys = np.stack([places, batch.targets.numpy(), heat.astype(np.float32).view(np.int32)], axis=1)
    _, first, shares = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    batch.places, batch.targets = batch.places[first], batch.targets[first]
    batch.temperatures = None if batch.temperatures is None else batch.temperatures[first]
    ends = np.cumsum(layout.tree.lengths)
    spans = np.searchsorted(ends, batch.places.numpy(), side="right")
    batch.counts = tuple(int(number) for number in np.bincount(spans, minlength=len(ends)))
    batch.tree, batch.shares = layout.tree, torch.as_tensor(shares.reshape(-1))
    return batch


def _flat_batch(
    segments: Sequence[Segment],
    weights: Sequence[npt.NDArray[np.float32]],
    ids: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    lengths: tuple[int, ...],
    numbers: tuple[int, ...],
) -> Batch:
    turns = np.concatenate([segment.turns[segment.mask] + i * 100_000 for i, segment in enumerate(segments)])
    flat = [np.concatenate([getattr(s, name)[s.mask] for s in segments]) for name in ("ids", "advantages", "logprobs")]
    return Batch(
        torch.as_tensor(ids),
        torch.as_tensor(places),
        torch.as_tensor(flat[0].astype(np.int64)),
        torch.as_tensor(flat[1]),
        torch.as_tensor(flat[2]),
        torch.as_tensor(np.concatenate([w[s.mask] for w, s in zip(weights, segments, strict=True)]).astype(np.float32)),
        torch.as_tensor(np.unique(turns, return_inverse=True)[1].astype(np.int64)),
        torch.as_tensor(np.repeat(np.arange(len(segments)), [segment.trained for segment in segments])),
        lengths,
        numbers,
        extra={
            name: torch.as_tensor(np.concatenate([segment.extra[name][segment.mask] for segment in segments]))
            for name in segments[0].extra
        },
        temperatures=_temperatures(segments),
        hint_removed=_hint_removed(segments),
    )


def _temperatures(segments: Sequence[Segment]) -> Tensor | None:
    """Return the temperatures of the trained tokens; None where every row has the run's own."""
    if all(segment.temperatures is None for segment in segments):
        return None
    own = [np.full(len(s), np.nan, dtype=np.float32) if s.temperatures is None else s.temperatures for s in segments]
    return torch.as_tensor(np.concatenate([row[s.mask] for row, s in zip(own, segments, strict=True)]))


def _hint_removed(segments: Sequence[Segment]) -> Tensor | None:
    """Return which trained tokens were sampled with a hint that their row lacks; None where none were."""
    if not any(segment.hint_removed for segment in segments):
        return None
    marks = [segment.hint_removed for segment in segments]
    return torch.as_tensor(np.repeat(marks, [segment.trained for segment in segments]))


def unpack(batches: Sequence[Batch], values: Sequence[Tensor], segments: Sequence[Segment]) -> list[npt.NDArray[np.float32]]:
    """Return, per segment, what a model computed at its trained tokens, laid out by token (NaN elsewhere)."""
    arrays = [np.full(len(segment), np.nan, dtype=np.float32) for segment in segments]
    for batch, flat in zip(batches, values, strict=True):
        pieces = np.split(flat.detach().float().cpu().numpy(), np.cumsum([segments[i].trained for i in batch.segments])[:-1])
        for i, piece in zip(batch.segments, pieces, strict=True):
            arrays[i][segments[i].mask] = piece
    return arrays


def count(segments: Sequence[Segment], loss_aggregation: str) -> float:
    """Return what the losses of these rows are divided by; add it up over processes before `token_weights`.

    Trained tokens (`token`), turns with any (`turn`), or episodes with any (the rest). Tokens that several rows hold count
    by their shares, and so do turns.
    """
    if loss_aggregation not in LOSS_AGGREGATIONS:
        raise BadConfig(
            f"loss_aggregation is {loss_aggregation!r}; expected one of {', '.join(map(repr, LOSS_AGGREGATIONS))}"
        )
    if loss_aggregation == "token":
        return sum(segment.trained if segment.shares is None else float(segment.counted.sum()) for segment in segments)
    if loss_aggregation == "turn":
        return sum(_turns(segment) for segment in segments)
    return len({segment.episode for segment in segments if segment.trained})


def _turns(segment: Segment) -> float:
    numbers, first = np.unique(segment.turns[segment.mask], return_index=True)
    return len(numbers) if segment.shares is None else float(segment.counted[segment.mask][first].sum())


def token_weights(
    segments: Sequence[Segment],
    loss_aggregation: str = "token",
    *,
    total: float | None = None,
    constant: float | None = None,
) -> list[npt.NDArray[np.float32]]:
    """Return per row what each token's loss is multiplied by, so that a plain sum is the mean that was asked for.

    `token`: all trained tokens alike (DAPO). `turn`: all turns alike, tokens alike within one. `episode`: all episodes
    alike, tokens alike within one (the original GRPO). `episode-sum`: 1 / episodes for every token. `constant`:
    1 / (episodes * constant), as Dr.GRPO has it; `constant` is a fixed length, for example the token budget of an
    episode. All are over one whole optimizer step (`total`: `count` over all processes), so they depend neither on
    micro-batches nor on how turns were merged into rows. Pass all rows of an episode together.
    """
    total = count(segments, loss_aggregation) if total is None else total
    if (constant is not None) != (loss_aggregation == "constant") or (constant is not None and constant <= 0):
        raise BadConfig(
            f"loss_aggregation {loss_aggregation!r} with constant {constant}; 'constant' needs a length above 0, and no "
            f"other takes one"
        )
    per_episode: dict[int, float] = {}
    for segment in segments:
        per_episode[segment.episode] = per_episode.get(segment.episode, 0) + float(segment.counted.sum())
    arrays: list[npt.NDArray[np.float32]] = []
    for segment in segments:
        weights = segment.counted / np.float64(total or 1)
        if loss_aggregation == "turn":
            lengths = np.bincount(segment.turns[segment.mask])
            weights[segment.mask] /= lengths[segment.turns[segment.mask]]
        elif loss_aggregation == "episode":
            weights /= per_episode[segment.episode] or 1
        elif constant is not None:
            weights /= constant
        arrays.append(weights.astype(np.float32))
    return arrays
