"""Trees of rows with common prefixes, stored as one sequence in which each prefix appears once."""

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
    """Spans of tokens in depth-first order: a parent, then the whole subtree of each child in turn.

    A row is the path from a root to a span. A token attends to itself, to the tokens before it in its span, and to all
    tokens of the spans above.
    """

    lengths: tuple[int, ...]  # [spans], tokens
    parents: tuple[int, ...]  # [spans], the span that each continues; -1 for a root

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Position of each span in the sequence, [spans]."""
        return tuple(end - length for end, length in zip(accumulate(self.lengths), self.lengths, strict=True))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of tokens before each span in the rows that contain it, [spans]."""
        starts: list[int] = []
        for parent in self.parents:
            starts.append(0 if parent < 0 else starts[parent] + self.lengths[parent])
        return tuple(starts)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the spans from the root to each span, itself included, [spans]."""
        spans: list[tuple[int, ...]] = []
        for span, parent in enumerate(self.parents):
            spans.append((span,) if parent < 0 else (*spans[parent], span))
        return tuple(spans)

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in the rows that contain it, [tokens] on the CPU."""
        pieces = zip(self.depths, self.lengths, strict=True)
        return torch.cat([torch.arange(depth, depth + length) for depth, length in pieces])

    @cached_property
    def ends(self) -> Tensor:
        """End of each token's subtree in the sequence, [tokens] on the CPU: token q attends to k if k <= q < ends[k]."""
        last = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        for span in reversed(range(len(last))):
            if self.parents[span] >= 0:
                last[self.parents[span]] = max(last[self.parents[span]], last[span])
        return torch.tensor(last).repeat_interleave(torch.tensor(self.lengths))

    def above(self, spans: Sequence[Tensor], dimension: int = 0) -> list[Tensor]:
        """Return, for each span, the values of all spans from the root to this span, concatenated along `dimension`.

        Each result is [tokens from the root to the span, ...], with the trailing dimensions of the values.
        """
        pairs = zip(spans, self.parents, self.paths, strict=True)
        return [own if parent < 0 else torch.cat([spans[i] for i in path], dimension) for own, parent, path in pairs]
