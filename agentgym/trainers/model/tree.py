"""How rows that begin alike lie in one sequence, with what they share there once."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """Spans of tokens in depth-first order: each comes after the span that it goes on from, and before that one's next.

    A row is the path from a root to a span. A token sees itself and what is before it in its span and in the spans above.
    """

    lengths: tuple[int, ...]  # [spans], tokens
    parents: tuple[int, ...]  # [spans], the span that each goes on from; -1 where a row begins

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each span begins in the sequence, [spans]."""
        return tuple(end - length for end, length in zip(accumulate(self.lengths), self.lengths, strict=True))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many tokens of its rows come before each span, [spans]."""
        starts: list[int] = []
        for parent in self.parents:
            starts.append(0 if parent < 0 else starts[parent] + self.lengths[parent])
        return tuple(starts)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """From the root to each span, itself included, [spans]."""
        spans: list[tuple[int, ...]] = []
        for span, parent in enumerate(self.parents):
            spans.append((span,) if parent < 0 else (*spans[parent], span))
        return tuple(spans)

    @cached_property
    def positions(self) -> Tensor:
        """The position of each token in its rows, [tokens] on the CPU."""
        pieces = zip(self.depths, self.lengths, strict=True)
        return torch.cat([torch.arange(depth, depth + length) for depth, length in pieces])

    @cached_property
    def ends(self) -> Tensor:
        """Where what goes on from each token ends in the sequence, [tokens] on the CPU: token q sees k <= q < ends[k]."""
        last = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        for span in reversed(range(len(last))):
            if self.parents[span] >= 0:
                last[self.parents[span]] = max(last[self.parents[span]], last[span])
        return torch.tensor(last).repeat_interleave(torch.tensor(self.lengths))

    def above(self, spans: Sequence[Tensor], dimension: int = 0) -> list[Tensor]:
        """Return for each span what belongs to its rows up to its end, from what belongs to each span."""
        pairs = zip(spans, self.parents, self.paths, strict=True)
        return [own if parent < 0 else torch.cat([spans[i] for i in path], dimension) for own, parent, path in pairs]
