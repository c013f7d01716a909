"""Prefix-tree packing: lay rows out so that a common prefix is computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentgym.trainers.model.tree import Tree

Ids = npt.NDArray[np.int32]

SHORTEST = 16
"""Minimum tokens of a shared prefix: each fork costs one more attention call in every layer."""
PAYS = 0.1
"""Minimum share of all tokens that a tree must save; otherwise rows are packed without one (results/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of one micro-batch as a tree."""

    rows: tuple[int, ...]
    """Indices of the rows in the input of `layouts`, in depth-first order."""
    where: tuple[npt.NDArray[np.int64], ...]
    """Positions of each row's tokens in the sequence, [tokens of the row] int64."""
    ids: npt.NDArray[np.int64]
    """Ids of the sequence, in which a shared prefix occurs once: [tokens]."""
    tree: Tree


def layouts(rows: Sequence[Ids], tokens: int) -> list[Layout] | None:
    """Return trees of at most `tokens` tokens that contain all rows, largest first; a longer row is alone in a tree.

    Returns None if less than a share `PAYS` of all tokens would be saved. Rows are added sorted by their tokens: this is
    the tree's depth-first order, and the longest prefix that a row shares with any earlier row is the one that it shares
    with the row just before it.
    """
    keys = [row.astype(">i4").tobytes() for row in rows]  # ids are not negative: bytes sort as they do
    order = sorted(range(len(rows)), key=lambda i: (keys[i], i))
    trees: list[_GrowingTree] = []
    for number, i in enumerate(order):
        common = _common(rows[order[number - 1]], rows[i]) if number else 0
        if not trees or trees[-1].size + len(rows[i]) - common > tokens:
            trees.append(_GrowingTree())
        trees[-1].add(i, rows[i], common if trees[-1].rows else 0)
    total = sum(len(row) for row in rows)
    if total - sum(tree.size for tree in trees) < PAYS * total:
        return None
    return [tree.layout() for tree in sorted(trees, key=lambda tree: -tree.size)]


def _common(left: Ids, right: Ids) -> int:
    """Return the length of the common prefix of two rows; 0 if it is too short for a fork."""
    size = min(len(left), len(right))
    differs = np.flatnonzero(left[:size] != right[:size])
    length = int(differs[0]) if len(differs) else size
    return length if length >= SHORTEST else 0


@dataclass(slots=True)
class _GrowingTree:
    """A tree to which rows are added in the order of their tokens."""

    size: int = 0
    rows: list[int] = field(default_factory=list[int])
    where: list[npt.NDArray[np.int64]] = field(default_factory=list[npt.NDArray[np.int64]])
    pieces: list[Ids] = field(default_factory=list[Ids])
    forks: dict[int, int] = field(default_factory=dict[int, int])
    """Position of the first token of each fork or root -> position of the token before it on its path, or -1 at a root."""

    def add(self, index: int, ids: Ids, common: int) -> None:
        """Add a row that shares its first `common` tokens with the row added before it."""
        fresh = np.arange(self.size, self.size + len(ids) - common)
        where = np.concatenate([self.where[-1][:common], fresh]) if common else fresh
        above = int(where[common - 1]) if common else -1
        if len(fresh) and (above < 0 or above != self.size - 1):  # else it continues where the previous row ends
            self.forks[self.size] = above
        self.rows.append(index)
        self.where.append(where)
        self.pieces.append(ids[common:])
        self.size += len(fresh)

    def layout(self) -> Layout:
        """Return the tree; a span begins at each fork's first token and after each token that a fork continues."""
        cuts = {*self.forks, *(above + 1 for above in self.forks.values() if above >= 0)} - {self.size}
        starts = np.array(sorted(cuts), dtype=np.int64)
        parents: list[int] = []
        for number, start in enumerate(starts.tolist()):  # a span after a cut continues the one before it
            above = self.forks.get(start)
            parents.append(number - 1 if above is None else int(np.searchsorted(starts, above, side="right")) - 1)
        tree = Tree(tuple(np.diff(starts, append=self.size).tolist()), tuple(parents))
        ids = np.concatenate(self.pieces).astype(np.int64)
        return Layout(tuple(self.rows), tuple(self.where), ids, tree)
