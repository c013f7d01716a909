"""The expert: it finds all valuations that explain the other side's answers, and the offer that works for most of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agentgym.envs.negotiation.deals import Share, all_values, divisions, rest, ways, worth

if TYPE_CHECKING:
    from agentgym.envs.negotiation.env import Negotiation

MOST = 5000
"""Number of valuations above which the expert does not enumerate them."""
Numbers = npt.NDArray[Any]


def move(env: "Negotiation") -> str:
    """Return a good move from the observations of the side to move, knowing how the scripted opponent concedes.

    The expert keeps every valuation of the other side that explains all answers of that side so far. It rates an offer by
    the number of valuations in which the offer would be accepted and succeed, minus those in which it would be accepted and
    fail. If no valuation is left, if there are more than MOST, or in self-play, the expert assumes that the other side
    values most what it requested most.
    """
    seen = _SideView(env)
    candidates = seen.candidates()
    return seen.guessed() if candidates is None else seen.best(candidates)


class _SideView:
    """The knowledge of the side to move, tabulated over all possible shares.

    The argument `theirs` has the other side's points if this side takes a share, int [valuations, shares].
    """

    def __init__(self, env: "Negotiation") -> None:
        place, self.counts = env.place, env.counts
        self.values: Share = tuple(env.task.data["values"][place])
        self.cooperative, self.last = env.task.data["scoring"] == "cooperative", env.last
        self.goal = 0 if self.cooperative else int(env.task.data["goals"][place])
        self.shares = divisions(self.counts)
        self.number = {share: number for number, share in enumerate(self.shares)}
        self.left = np.array([rest(self.counts, share) for share in self.shares])
        """Items that each share leaves to the other side, int [shares, kinds]."""
        self.own = np.array([worth(share, self.values) for share in self.shares])
        mine = [share if place == 0 else rest(self.counts, share) for share in env.offers]
        self.own_offers, self.other_offers = mine[place::2], mine[1 - place :: 2]
        self.offers, self.alone = len(env.offers), env.opponent == "scripted"

    @property
    def total(self) -> int:
        """Points of all items together."""
        return worth(self.counts, self.values)

    def candidates(self) -> Numbers | None:
        """Return the other side's points for each share, int [valuations, shares].

        Return None if no valuation fits, if there are more than MOST, or in self-play.
        """
        if not self.alone or ways(self.counts, self.total) > MOST:
            return None
        theirs = np.array(all_values(self.counts, self.total)) @ self.left.T  # [valuations, shares]
        floors = self.floors(theirs)
        fits = floors >= 1
        for turn, (request, answer) in enumerate(zip(self.own_offers, self.other_offers, strict=False)):
            offers, ask = 2 * turn + 1, self.number[request]
            fits &= theirs[:, ask] < self.levels(floors, offers)
            fits &= self.answers(theirs, self.levels(floors, offers + 1), ask) == self.number[answer]
        return theirs[fits] if fits.any() else None

    def good(self, theirs: Numbers) -> Numbers:
        """Return True for each share with which this side succeeds, bool [valuations, shares]."""
        if not self.cooperative:
            return np.broadcast_to(self.own >= self.goal, theirs.shape)
        totals = self.own + theirs
        return totals == totals.max(axis=1, keepdims=True)

    def floors(self, theirs: Numbers) -> Numbers:
        """Return the lowest demand that the other side falls to, in points, int [valuations]."""
        return np.where(self.good(theirs), theirs, 0).max(axis=1)

    def levels(self, floors: Numbers, offers: int) -> Numbers:
        """Return the other side's demand in points after `offers` offers, int [valuations]; `floors` is its minimum."""
        return floors + np.ceil((self.total - floors) * max(self.last - offers, 0) / self.last).astype(int)

    def answers(self, theirs: Numbers, levels: Numbers, ask: int) -> Numbers:
        """Return the index of the share that the other side's counteroffer leaves to this side, int [valuations].

        `levels` are the other side's demands, and `ask` is the index of the share that this side requested.
        """
        distance = np.abs(np.array(self.shares) - self.shares[ask]).sum(axis=1)
        later = np.arange(len(self.shares))[::-1]  # its first share is our last
        rank = (distance * 10**9 - theirs * 10**5 + later).astype(float)
        return np.where(theirs >= levels[:, None], rank, np.inf).argmin(axis=1)

    def best(self, theirs: Numbers) -> str:
        """Return the move that is best over all valuations left."""
        good, floors = self.good(theirs), self.floors(theirs)
        accepted = theirs >= self.levels(floors, self.offers + 1)[:, None]
        gain = (accepted & good).sum(axis=0) - (accepted & ~good).sum(axis=0) * 1.0
        table = good[:, self.number[self.other_offers[-1]]].mean() if self.other_offers else 0.0
        if table == 1 or (self.offers + 1 >= self.last and table > max(gain.max(), 0) / len(theirs)):
            return "accept"
        hope = (good & (theirs >= floors[:, None])).sum(axis=0)
        fresh = np.array([share not in self.own_offers for share in self.shares])
        order = np.lexsort((-self.own, -hope, ~fresh, -gain))
        return f"propose {' '.join(map(str, self.shares[int(order[0])]))}"

    def guessed(self) -> str:
        """Return a move that assumes the other side values most what it requested most."""
        weights = [1 + sum(1 - offer[kind] / count for offer in self.other_offers) for kind, count in enumerate(self.counts)]
        theirs = self.left @ np.array(weights) * self.total / float(np.dot(weights, self.counts))
        if self.cooperative:
            order = np.lexsort((-self.own, -(self.own + theirs).round(9)))
            enough = bool(self.other_offers) and self.number[self.other_offers[-1]] == int(order[0])
        else:
            order = np.lexsort((-self.own, -theirs.round(9), self.own < self.goal))
            enough = bool(self.other_offers) and worth(self.other_offers[-1], self.values) >= self.goal
        ranked: Sequence[Share] = [self.shares[int(place)] for place in order]
        fresh = [share for share in ranked if share not in self.own_offers]
        return "accept" if enough else f"propose {' '.join(map(str, [*fresh, *ranked][0]))}"
