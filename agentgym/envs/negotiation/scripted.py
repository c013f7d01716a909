"""The scripted opponent, and the success of a deal."""

from collections.abc import Callable

from agentgym.core.tasks import Data
from agentgym.envs.negotiation.deals import Share, counter, level, points, rest, worth

Say = Callable[[Share | None], Share | None]
"""A policy that maps the last offer (None at the start) to the share it requests, or None to accept."""


def succeeds(data: Data, share: Share, place: int = 0) -> bool:
    """Return True if a deal meets a side's goal; `share` is A's, and `place` is 0 for A, 1 for B."""
    got = points(tuple(data["counts"]), data["values"], share)
    return (sum(got) if data["scoring"] == "cooperative" else got[place]) >= data["goals"][place]


def answered(data: Data, request: Share, offers: int) -> Share | None:
    """Return A's share in the scripted side's counteroffer; None if it accepts.

    `request` is the share that A requests; `offers` is the number of offers so far, including this one.
    """
    counts, theirs, last = tuple(data["counts"]), tuple(data["values"][1]), 2 * data["rounds"] - 1
    top, floor = worth(counts, theirs), data["floor"]
    if worth(rest(counts, request), theirs) >= level(top, floor, offers, last):
        return None
    return rest(counts, counter(counts, theirs, level(top, floor, offers + 1, last), request))


def wins(data: Data, say: Say) -> bool:
    """Return True if a policy succeeds as A against the scripted side."""
    offer, offers, last = None, 0, 2 * data["rounds"] - 1
    while True:
        share = say(offer)
        if share is None:
            return offer is not None and succeeds(data, offer)
        answer = answered(data, share, offers + 1)
        if answer is None or offers + 1 >= last:
            return answer is None and succeeds(data, share)
        offer, offers = answer, offers + 2
