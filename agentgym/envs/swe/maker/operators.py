"""How bugs are made: operators that change a piece of code the way people get it wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentgym.envs.swe.maker.code import Code, Splice

Change: TypeAlias = Callable[[Code, Any], Iterator[Splice | None]]
"""Yields the changes that an operator can make at a node of its kind; None is none."""


@dataclass(frozen=True)
class Operator:
    """A kind of bug."""

    name: str
    weight: float
    """How often it is drawn beside the others, however many places it fits."""
    kinds: tuple[type, ...]
    """The nodes it looks at."""
    changes: Change


OPERATORS: dict[str, Operator] = {}


def operator(name: str, weight: float, *kinds: type) -> Callable[[Change], Change]:
    """Return a decorator that enters an operator into the table."""

    def enter(changes: Change) -> Change:
        OPERATORS[name] = Operator(name, weight, kinds, changes)
        return changes

    return enter
