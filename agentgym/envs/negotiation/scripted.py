"""The scripted other side, and when a deal succeeds."""

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.envs.negotiation.deals import Share, counter, level, points, rest, worth

Say = Callable[[Share | None], Share | None]
"""A policy that sees the last offer alone: it returns what it asks for, or None to accept."""


def succeeds(data: Mapping[str, Any], share: Share, place: int = 0) -> bool:
    """Return whether a deal, by what A takes, brings a side what it needs."""
    got = points(tuple(data["counts"]), data["values"], share)
    return (sum(got) if data["scoring"] == "cooperative" else got[place]) >= data["goals"][place]


def answered(data: Mapping[str, Any], asked: Share, made: int) -> Share | None:
    """Return what the scripted side would leave A in place of what A asks for; None where it accepts.

    `made`: how many offers there were, that one included.
    """
    counts, theirs, last = tuple(data["counts"]), tuple(data["values"][1]), 2 * data["rounds"] - 1
    top, floor = worth(counts, theirs), data["floor"]
    if worth(rest(counts, asked), theirs) >= level(top, floor, made, last):
        return None
    return rest(counts, counter(counts, theirs, level(top, floor, made + 1, last), asked))


def wins(data: Mapping[str, Any], say: Say) -> bool:
    """Return whether such a policy succeeds against the scripted side."""
    offer, made, last = None, 0, 2 * data["rounds"] - 1
    while True:
        share = say(offer)
        if share is None:
            return offer is not None and succeeds(data, offer)
        answer = answered(data, share, made + 1)
        if answer is None or made + 1 >= last:
            return answer is None and succeeds(data, share)
        offer, made = answer, made + 2
