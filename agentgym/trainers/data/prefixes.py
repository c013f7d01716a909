"""Rows laid out so that a prefix which several begin with is computed once: prefix-tree packing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentgym.trainers.model.tree import Tree

Ids = npt.NDArray[np.int32]

SHORTEST = 16
"""Tokens that a prefix has at least: each fork is a call of attention more in every layer."""
PAYS = 0.1
"""Share of all tokens that is saved at least; below it rows are packed as they are (results/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of one micro-batch as a tree."""

    rows: tuple[int, ...]
    """Indices of the rows in what `layouts` was given, in depth-first order."""
    where: tuple[npt.NDArray[np.int64], ...]
    """Of each row, where in the sequence each of its tokens lies."""
    ids: npt.NDArray[np.int64]  # [tokens], each once
    tree: Tree


def layouts(rows: Sequence[Ids], tokens: int) -> list[Layout] | None:
    """Return trees of at most `tokens` tokens that hold all rows (a longer row makes one of its own), the largest first.

    None where less than a share `PAYS` of all tokens would be saved. Sorted by their tokens, rows stand in depth-first order
    of the tree that they make, and what a row has in common with any row before it, it has with the one just before it.
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
    """Return how many tokens two rows begin with alike; 0 where too few for a fork."""
    size = min(len(left), len(right))
    differs = np.flatnonzero(left[:size] != right[:size])
    length = int(differs[0]) if len(differs) else size
    return length if length >= SHORTEST else 0


@dataclass(slots=True)
class _GrowingTree:
    """A tree that rows are added to in the order of their tokens."""

    size: int = 0
    rows: list[int] = field(default_factory=list[int])
    where: list[npt.NDArray[np.int64]] = field(default_factory=list[npt.NDArray[np.int64]])
    pieces: list[Ids] = field(default_factory=list[Ids])
    forks: dict[int, int] = field(default_factory=dict[int, int])
    """Where a row leaves the one before it, or begins: from the place of the first token to that of the one above, or -1."""

    def add(self, index: int, ids: Ids, common: int) -> None:
        """Add a row that has its first `common` tokens from the row added last."""
        fresh = np.arange(self.size, self.size + len(ids) - common)
        where = np.concatenate([self.where[-1][:common], fresh]) if common else fresh
        above = int(where[common - 1]) if common else -1
        if len(fresh) and (above < 0 or above != self.size - 1):  # else it goes on where the row before it ends
            self.forks[self.size] = above
        self.rows.append(index)
        self.where.append(where)
        self.pieces.append(ids[common:])
        self.size += len(fresh)

    def layout(self) -> Layout:
        """Return the tree: a span begins with each fork, and where another span is left in its middle."""
        cuts = {*self.forks, *(above + 1 for above in self.forks.values() if above >= 0)} - {self.size}
        starts = np.array(sorted(cuts), dtype=np.int64)
        parents: list[int] = []
        for number, start in enumerate(starts.tolist()):  # what follows a cut goes on from what is before it
            above = self.forks.get(start)
            parents.append(number - 1 if above is None else int(np.searchsorted(starts, above, side="right")) - 1)
        tree = Tree(tuple(np.diff(starts, append=self.size).tolist()), tuple(parents))
        ids = np.concatenate(self.pieces).astype(np.int64)
        return Layout(tuple(self.rows), tuple(self.where), ids, tree)
