"""Values for the slots of sentences and for inputs."""

import string
from collections.abc import Sequence
from typing import TypeVar

from agentgym.envs.code.families.family import Rng, Slot

T = TypeVar("T")


def integer(low: int, high: int, growth: int = 0) -> Slot:
    """Return a slot for an integer from `low` to `high` + `growth` * difficulty, inclusive."""
    return lambda rng, difficulty: int(rng.integers(low, high + growth * difficulty + 1))


def choice(*options: object) -> Slot:
    """Return a slot for a random option."""
    return lambda rng, _: options[int(rng.integers(len(options)))]


def subset(options: Sequence[str] | Sequence[int], low: int, high: int) -> Slot:
    """Return a slot for a sorted list of options, with `low` to `high` elements."""
    return lambda rng, _: sorted(sampled(options, rng, int(rng.integers(low, high + 1))))


letter = choice(*string.ascii_lowercase)


def sampled(options: Sequence[T], rng: Rng, count: int) -> list[T]:
    """Return `count` distinct options in random order."""
    return [options[int(i)] for i in rng.permutation(len(options))[:count]]


def one(options: Sequence[T], rng: Rng) -> T:
    """Return a random option."""
    return options[int(rng.integers(len(options)))]


def length(rng: Rng, difficulty: int, most: int = 8) -> int:
    """Return a random length of an input, from 0 to `most` + 3 * min(difficulty, 8)."""
    if rng.random() < 0.12:
        return int(rng.integers(0, 2))
    return int(rng.integers(2, most + 3 * min(difficulty, 8) + 1))


def numbers(rng: Rng, difficulty: int, low: int = -20, high: int = 20, most: int = 8) -> list[int]:
    """Return a list of integers from `low` to `high`, inclusive; some of them may be equal."""
    count = length(rng, difficulty, most)
    drawn = [int(n) for n in rng.integers(low, high + 1, count)]
    return [one(drawn, rng) if rng.random() < 0.2 else number for number in drawn]


def word(rng: Rng, least: int = 1, most: int = 8, letters: str = "aabcdeefghiiklmnoopqrsttuvwxyz") -> str:
    """Return a random word of `least` to `most` lower-case letters."""
    count = int(rng.integers(least, most + 1))
    drawn = "".join(one(letters, rng) for _ in range(count))
    return drawn[: count // 2 + 1] + drawn[: count // 2][::-1] if rng.random() < 0.12 else drawn


def words(rng: Rng, difficulty: int, mixed: bool = False) -> list[str]:
    """Return a list of words, some of which may be equal; with `mixed`, some are capitalized and some in upper case."""
    drawn = [word(rng) for _ in range(length(rng, difficulty))]
    drawn = [one(drawn, rng) if rng.random() < 0.2 else each for each in drawn]
    if not mixed:
        return drawn
    return [each if (kind := rng.random()) < 0.4 else each.capitalize() if kind < 0.8 else each.upper() for each in drawn]
