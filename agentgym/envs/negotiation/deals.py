"""What two sides can agree on: every division of some things, what it is worth to each, and which ones are good."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

Share = tuple[int, ...]
"""How many of each kind one side takes; the other side takes the rest."""


@lru_cache(maxsize=256)
def divisions(counts: Share) -> tuple[Share, ...]:
    """Return everything one side may take, from nothing to all of it."""
    return tuple(itertools.product(*(range(count + 1) for count in counts)))


def rest(counts: Share, share: Share) -> Share:
    """Return what a share leaves to the other side."""
    return tuple(count - taken for count, taken in zip(counts, share, strict=True))


def worth(share: Share, values: Share) -> int:
    """Return the points of a share to a side with these values of one thing of each kind."""
    return sum(taken * value for taken, value in zip(share, values, strict=True))


def points(counts: Share, values: Sequence[Share], share: Share) -> tuple[int, int]:
    """Return what both sides get where the first takes this share."""
    return worth(share, values[0]), worth(rest(counts, share), values[1])


def frontier(counts: Share, values: Sequence[Share]) -> list[Share]:
    """Return the first side's shares in the efficient deals: none is better for one side and no worse for the other."""
    best, efficient = -1, list[Share]()
    by_first = itertools.groupby(
        sorted(divisions(counts), key=lambda share: (-worth(share, values[0]), share)), key=lambda s: worth(s, values[0])
    )
    for _, group in by_first:
        shares = list(group)
        most = max(points(counts, values, share)[1] for share in shares)
        if most > best:
            efficient += [share for share in shares if points(counts, values, share)[1] == most]
            best = most
    return efficient


def fair(counts: Share, values: Sequence[Share]) -> tuple[int, int]:
    """Return what both sides get in the fairest deal: that with the greatest product of their points (Nash's solution)."""
    got = [points(counts, values, share) for share in divisions(counts)]
    return max(got, key=lambda pair: (pair[0] * pair[1], pair[0] + pair[1], pair))


def best_total(counts: Share, values: Sequence[Share]) -> int:
    """Return the most points that both sides can have together."""
    return sum(count * max(pair) for count, pair in zip(counts, zip(*values, strict=True), strict=True))


def level(top: int, floor: int, offers: int, last: int) -> int:
    """Return what a side that gives way insists on after so many offers: `top` at first, `floor` at the last, evenly."""
    return floor + math.ceil((top - floor) * max(last - offers, 0) / last)


def counter(counts: Share, values: Share, least: int, asked: Share) -> Share:
    """Return what a side asks for that insists on `least` points: what leaves the other closest to what it asked for.

    Of several that are as close, the one worth most, then the first.
    """

    def rank(share: Share) -> tuple[int, int, Share]:
        left = rest(counts, share)
        return sum(abs(a - b) for a, b in zip(left, asked, strict=True)), -worth(share, values), share

    return min((share for share in divisions(counts) if worth(share, values) >= least), key=rank)


@lru_cache(maxsize=256)
def all_values(counts: Share, total: int) -> tuple[Share, ...]:
    """Return every way to value the kinds so that all things together are worth `total`."""
    if len(counts) == 1:
        return ((total // counts[0],),) if total % counts[0] == 0 else ()
    first, *others = counts
    return tuple(
        (value, *tail) for value in range(total // first + 1) for tail in all_values(tuple(others), total - value * first)
    )


def ways(counts: Share, total: int) -> float:
    """Return about how many ways `all_values` has."""
    return total ** (len(counts) - 1) / math.factorial(len(counts) - 1) / (math.prod(counts) / max(counts))


def drawn(rng: np.random.Generator, kinds: int, things: int, total: int) -> tuple[Share, tuple[Share, Share]] | None:
    """Return counts of so many kinds and the values of both sides; None where this draw has none."""
    counts = np.ones(kinds, dtype=int)
    for place in rng.integers(kinds, size=things - kinds):
        counts[place] += 1
    amounts = tuple(int(count) for count in counts)
    first, second = _valued(rng, amounts, total), _valued(rng, amounts, total)
    return None if first is None or second is None else (amounts, (first, second))


def _valued(rng: np.random.Generator, counts: Share, total: int) -> Share | None:
    """Return values by which all things are worth `total`, drawn kind by kind; None where the last kind cannot fill it."""
    values = [0] * len(counts)
    *order, last = (int(place) for place in rng.permutation(len(counts)))
    for place in order:
        values[place] = int(rng.integers(total // counts[place] + 1))
        total -= counts[place] * values[place]
    values[last], over = divmod(total, counts[last])
    return None if over else tuple(values)
