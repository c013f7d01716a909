"""Mutation operators: changes to code that imitate people's mistakes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentgym.envs.swe.maker.code import Code, Splice

Change: TypeAlias = Callable[[Code, Any], Iterator[Splice | None]]
"""Function that yields an operator's possible changes at a node; None entries are skipped."""


@dataclass(frozen=True)
class Operator:
    """A kind of mutation."""

    name: str
    weight: float
    """Relative frequency of the operator, independent of the number of places that it fits."""
    kinds: tuple[type, ...]
    """The node types that the operator applies to."""
    changes: Change


OPERATORS: dict[str, Operator] = {}


def operator(name: str, weight: float, *kinds: type) -> Callable[[Change], Change]:
    """Return a decorator that registers an operator."""

    def enter(changes: Change) -> Change:
        OPERATORS[name] = Operator(name, weight, kinds, changes)
        return changes

    return enter
