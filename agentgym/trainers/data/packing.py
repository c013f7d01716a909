"""Pack rows into micro-batches of bounded size."""

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
    """One micro-batch: rows padded on the right, and flat arrays over the trained tokens.

    Rows have nearly equal lengths, so padding is rare; since it is on the right, no real token of a causal model
    attends to it, and no mask is needed. A trained token is predicted from the hidden state of the token before it:
    `places` are indices of these states in the flattened [rows * tokens].
    Rows that share prefixes are stored as a `tree` instead: `ids` is the tree's single sequence, and `lengths` and
    `counts` describe the tree's spans. A position that several rows share then occurs once in `places` and `targets`, and
    `shares` maps the trained tokens to these positions.
    """

    ids: Tensor  # [rows, tokens] int64
    places: Tensor  # [scored] int64
    targets: Tensor  # [scored] int64
    advantages: Tensor  # [trained] float32
    logprobs: Tensor  # [trained] float32, the engine's; NaN where unknown
    weights: Tensor  # [trained] float32, weight of each token's loss in the sum
    turns: Tensor  # [trained] int64, index of the turn in the micro-batch
    rows: Tensor  # [trained] int64, index of the row in the micro-batch
    lengths: tuple[int, ...]  # [rows], padding left out
    segments: tuple[int, ...] = ()
    """Indices of the rows in the input of `pack`; trained tokens are in this order."""
    counts: tuple[int, ...] = ()  # [rows], trained tokens of each; counted if empty
    extra: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Further inputs of the loss by name: [trained]."""
    temperatures: Tensor | None = None  # [scored] float32, NaN for the run's own; None if all are
    tree: Tree | None = None
    shares: Tensor | None = None  # [trained] int64, index of its scored token; None if both are the same
    hint_removed: Tensor | None = None  # [trained] bool, sampled with a hint that the row lacks; None if none was

    def __post_init__(self) -> None:
        if not self.counts:
            counted = np.bincount(self.rows.cpu().numpy(), minlength=len(self.lengths))
            self.counts = tuple(int(number) for number in counted)

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
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
    """Return a micro-batch of one row of two tokens with weight 0, for a process that has no work while others do.

    `extra` names the loss's further inputs, which are 0 here.
    """
    index, number = torch.zeros(1, dtype=torch.int64), torch.zeros(1)
    known = {name: number for name in extra}
    return Batch(index.new_zeros((1, 2)), index, index, number, number, number, index, index, (2,), extra=known)


def pack(
    segments: Sequence[Segment], weights: Sequence[npt.NDArray[np.float32]], tokens: int, *, share: bool = False
) -> list[Batch]:
    """Return micro-batches of at most `tokens` tokens, padding included; a longer row is alone in a micro-batch.

    Rows are sorted by length, longest first, so that memory peaks in the first micro-batch. `weights`, [tokens] per
    row, come from `token_weights` over the whole optimizer step, so the gradient does not depend on `tokens`. `share`:
    lay rows out as trees that contain a common prefix once, if that saves enough.

    Raises:
        BadConfig: `tokens` is below 1.
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
    """Return rows as a tree; trained tokens with the same prefix, id and temperature are scored once."""
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
    """Return the temperatures of the trained tokens, [trained], or None if all have the run's temperature."""
    if all(segment.temperatures is None for segment in segments):
        return None
    own = [np.full(len(s), np.nan, dtype=np.float32) if s.temperatures is None else s.temperatures for s in segments]
    return torch.as_tensor(np.concatenate([row[s.mask] for row, s in zip(own, segments, strict=True)]))


def _hint_removed(segments: Sequence[Segment]) -> Tensor | None:
    """Return a mask [trained] of tokens sampled with a hint that their row lacks, or None if no hint was removed."""
    if not any(segment.hint_removed for segment in segments):
        return None
    marks = [segment.hint_removed for segment in segments]
    return torch.as_tensor(np.repeat(marks, [segment.trained for segment in segments]))


def unpack(batches: Sequence[Batch], values: Sequence[Tensor], segments: Sequence[Segment]) -> list[npt.NDArray[np.float32]]:
    """Return a model's outputs at the trained tokens as an array [tokens] per segment, NaN elsewhere."""
    arrays = [np.full(len(segment), np.nan, dtype=np.float32) for segment in segments]
    for batch, flat in zip(batches, values, strict=True):
        pieces = np.split(flat.detach().float().cpu().numpy(), np.cumsum([segments[i].trained for i in batch.segments])[:-1])
        for i, piece in zip(batch.segments, pieces, strict=True):
            arrays[i][segments[i].mask] = piece
    return arrays


def count(segments: Sequence[Segment], loss_aggregation: str) -> float:
    """Return the divisor of the losses of these rows; sum it over processes before `token_weights`.

    It counts trained tokens (`token`), turns with trained tokens (`turn`), or episodes with trained tokens (the other
    values). Tokens and turns that several rows share count by their shares.

    Raises:
        BadConfig: `loss_aggregation` is unknown.
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
    """Return the factor of each token's loss, [tokens] per row, so that a plain sum is the requested mean.

    `token`: all trained tokens weigh the same (DAPO). `turn`: all turns weigh the same, and so do the tokens of a turn.
    `episode`: all episodes weigh the same, and so do the tokens of an episode (the original GRPO). `episode-sum`: 1 /
    episodes for every token. `constant`: 1 / (episodes * constant), as in Dr.GRPO; `constant` is a fixed length, for
    example the token budget of an episode. The mean is over one whole optimizer step (`total`: `count` over all
    processes), so it does not depend on micro-batches or on how turns were merged into rows. Pass all rows of an
    episode together.

    Raises:
        BadConfig: `constant` is missing, not above 0, or given with another aggregation.
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
