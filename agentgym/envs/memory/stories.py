"""Stories: a story has the statements about one attribute of one person, in order, each with its session."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TypeVar

import numpy as np

from agentgym.envs.memory.facts import Statement

T = TypeVar("T")
Story = list[tuple[int, Statement]]
"""The statements about one attribute of one person as (session number, statement), in order."""
MOST_VALUES = 3
"""Maximum number of values in a story."""
OFTEN = 0.65
"""Probability that a value changes, and that others contradict it: above 0.5, so that shortcut policies fail."""


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


def day_of(place: int) -> int:
    """Return the day of the session with index `place`."""
    return 1 + 2 * place


def most_unknown(families: Sequence[str], people: int) -> int:
    """Return the maximum number of people for whom an answer is `unknown`.

    The maximum is 0 without the families `abstain`, `update` and `expiry`. Otherwise it is usually 1, so that `unknown` is
    no more frequent than other answers. If facts expire and nobody contradicts them, it is half of the people: the
    shortcut `last mention` is wrong only for expired facts.
    """
    if not {"abstain", "update", "expiry"} & set(families):
        return 0
    return people // 2 if "expiry" in families and "hearsay" not in families else 1


def draw_stories(
    rng: np.random.Generator,
    people: Sequence[str],
    what: str,
    values: Sequence[str],
    families: Sequence[str],
    firsts: Sequence[int],
    last: int,
) -> list[Story]:
    """Return a story for each person; person i's story begins in session `firsts[i]` and ends by session `last`."""
    unknown = most_unknown(families, len(people))
    if unknown == 1 and rng.random() < 0.25:
        unknown = 0
    unknown_people = set(rng.permutation(len(people))[:unknown].tolist())
    needed = MOST_VALUES * len(people)
    order = cycle([values[int(place)] for place in rng.choice(len(values), min(needed, len(values)), replace=False)])
    stories: list[Story] = []
    for number, (who, first) in enumerate(zip(people, firsts, strict=True)):
        if number in unknown_people:
            statements = list(_forgotten(rng, who, what, order, families, first))
        else:
            statements = list(_known(rng, who, what, order, families, last))
        later = first + 1 + rng.permutation(last - first)[: max(len(statements) - 1, 0)]
        stories.append(list(zip([first, *sorted(later.tolist())], statements, strict=False)))
    return stories


def _known(
    rng: np.random.Generator, who: str, what: str, order: Iterator[str], families: Sequence[str], last: int
) -> Iterator[Statement]:
    """Yield the statements of a story that ends with a known value.

    `order` yields the values to use; `last` is the last session, before which no value expires.
    """
    plain, hearsay = [name for name in ("recall", "expiry") if name in families], "hearsay" in families
    changed = "update" in families and (rng.random() < OFTEN or not (plain or hearsay))
    contradicted = hearsay and rng.random() < OFTEN
    if hearsay and not contradicted and (rng.random() < 0.5 or not (plain or changed)):
        yield Statement("heard", who, what, next(order))
        if not changed and rng.random() < 0.5:
            return
    if changed:
        yield Statement("own", who, what, next(order))
    if plain and pick(rng, plain) == "expiry":
        yield Statement("until", who, what, next(order), day_of(last + int(rng.integers(4))))
    else:
        yield Statement("changed" if changed else "own", who, what, next(order))
    if contradicted:
        yield Statement("heard", who, what, next(order))


def _forgotten(
    rng: np.random.Generator, who: str, what: str, order: Iterator[str], families: Sequence[str], first: int
) -> Iterator[Statement]:
    """Yield the statements of a story that ends with an unknown value: never stated, withdrawn, or expired.

    `order` yields the values to use; `first` is the session of the first statement; an expiring value is valid only on
    that day.
    """
    kind = pick(rng, [name for name in ("abstain", "update", "expiry") if name in families])
    if kind == "update":
        yield Statement("own", who, what, next(order))
        yield Statement("given up", who, what)
    elif kind == "expiry":
        yield Statement("until", who, what, next(order), day_of(first))
