"""Shortcut policies: wrong ways to answer questions; no task rewards them."""

from collections.abc import Callable, Mapping, Sequence

from agentgym.envs.memory.facts import UNKNOWN, Statement, Valid, answer, valid_after

Stated = Sequence[tuple[int, Statement]]
"""Statements in order, each with its session."""
Way = Callable[[Mapping[str, str], Stated, int, int], str]
"""Maps a question, the statements so far, the session number and the day to an answer."""
RECENT = 2
"""Number of sessions that the policy `last two sessions` remembers."""


def wrong_ways(families: Sequence[str]) -> dict[str, Way]:
    """Return the policies that a task of these families must not reward, by name."""
    ways: dict[str, Way] = {
        "always unknown": lambda question, stated, place, day: UNKNOWN,
        "last two sessions": _recent,
        "last value of anybody": last_of_anybody,
        "first value of anybody": lambda question, stated, place, day: _of_anybody(question, stated, 0),
    }
    if "update" in families:
        ways["first mention"] = _mention(first=True)
    if {"hearsay", "expiry"} & set(families):
        ways["last mention"] = _mention(first=False)
    return ways


def _recent(question: Mapping[str, str], stated: Stated, place: int, day: int) -> str:
    return answer(question, valid_after(one for session, one in stated if session > place - RECENT), day)


def last_of_anybody(question: Mapping[str, str], stated: Stated, place: int, day: int) -> str:
    """Answer with the last statement about the question's attribute, ignoring the person."""
    return _of_anybody(question, stated, -1)


def _of_anybody(question: Mapping[str, str], stated: Stated, which: int) -> str:
    found = [one for _, one in stated if one.what == question["what"] and one.value]
    if not found:
        return UNKNOWN
    return found[which].who if "value" in question else found[which].value


def _mention(*, first: bool) -> Way:
    """Return the policy that believes the first or last statement about a person, even hearsay.

    The policy for the last statement also ignores that facts expire.
    """

    def way(question: Mapping[str, str], stated: Stated, place: int, day: int) -> str:
        valid: Valid = {(one.who, one.what): one for _, one in (reversed(stated) if first else stated)}
        return answer(question, valid, day if first else 0)

    return way
