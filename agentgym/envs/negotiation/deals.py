"""Possible deals: the divisions of the items, their worth to each side, and their efficiency and fairness."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

Share = tuple[int, ...]
"""Number of items of each kind that one side takes; the other side takes the rest."""


@lru_cache(maxsize=256)
def divisions(counts: Share) -> tuple[Share, ...]:
    """Return all possible shares of one side, from no items to all of them."""
    return tuple(itertools.product(*(range(count + 1) for count in counts)))


def rest(counts: Share, share: Share) -> Share:
    """Return the other side's share."""
    return tuple(count - amount for count, amount in zip(counts, share, strict=True))


def worth(share: Share, values: Share) -> int:
    """Return a share's points for a side; `values` are its points for one item of each kind."""
    return sum(amount * value for amount, value in zip(share, values, strict=True))


def points(counts: Share, values: Sequence[Share], share: Share) -> tuple[int, int]:
    """Return both sides' points if the first side takes this share."""
    return worth(share, values[0]), worth(rest(counts, share), values[1])


def frontier(counts: Share, values: Sequence[Share]) -> list[Share]:
    """Return the first side's shares in the Pareto-efficient deals."""
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
    """Return both sides' points in the fairest deal: the one with the greatest product of points (Nash's solution).

    Ties go to the greater sum, then to the first side.
    """
    got = [points(counts, values, share) for share in divisions(counts)]
    return max(got, key=lambda pair: (pair[0] * pair[1], pair[0] + pair[1], pair))


def best_total(counts: Share, values: Sequence[Share]) -> int:
    """Return the maximum total points of both sides."""
    return sum(count * max(pair) for count, pair in zip(counts, zip(*values, strict=True), strict=True))


def level(top: int, floor: int, offers: int, last: int) -> int:
    """Return a side's demand in points after `offers` offers of both sides.

    It falls linearly, rounded up, from `top` to `floor` at offer `last`.
    """
    return floor + math.ceil((top - floor) * max(last - offers, 0) / last)


def counter(counts: Share, values: Share, least: int, request: Share) -> Share:
    """Return the share that a side with these `values` requests when it demands `least` points.

    This share leaves the other side as close as possible to its `request`. Ties go to the share worth most, then to the
    smallest tuple.
    """

    def rank(share: Share) -> tuple[int, int, Share]:
        left = rest(counts, share)
        return sum(abs(a - b) for a, b in zip(left, request, strict=True)), -worth(share, values), share

    return min((share for share in divisions(counts) if worth(share, values) >= least), key=rank)


@lru_cache(maxsize=256)
def all_values(counts: Share, total: int) -> tuple[Share, ...]:
    """Return all valuations (points per item of each kind) that make all items together worth `total` points."""
    if len(counts) == 1:
        return ((total // counts[0],),) if total % counts[0] == 0 else ()
    first, *others = counts
    return tuple(
        (value, *tail) for value in range(total // first + 1) for tail in all_values(tuple(others), total - value * first)
    )


def ways(counts: Share, total: int) -> float:
    """Return an estimate of the number of valuations that `all_values` returns, without computing them."""
    return total ** (len(counts) - 1) / math.factorial(len(counts) - 1) / (math.prod(counts) / max(counts))


def drawn(rng: np.random.Generator, kinds: int, things: int, total: int) -> tuple[Share, tuple[Share, Share]] | None:
    """Draw `things` items of `kinds` kinds and both sides' values; return None if the values do not add up to `total`."""
    counts = np.ones(kinds, dtype=int)
    for place in rng.integers(kinds, size=things - kinds):
        counts[place] += 1
    amounts = tuple(int(count) for count in counts)
    first, second = _valued(rng, amounts, total), _valued(rng, amounts, total)
    return None if first is None or second is None else (amounts, (first, second))


def _valued(rng: np.random.Generator, counts: Share, total: int) -> Share | None:
    """Draw values that make all items worth `total`; return None if no value of the last kind drawn fits the rest."""
    values = [0] * len(counts)
    *order, last = (int(place) for place in rng.permutation(len(counts)))
    for place in order:
        values[place] = int(rng.integers(total // counts[place] + 1))
        total -= counts[place] * values[place]
    values[last], over = divmod(total, counts[last])
    return None if over else tuple(values)
