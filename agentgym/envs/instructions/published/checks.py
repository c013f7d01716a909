"""The table of checkers: each instruction's arguments, dependencies, and judging function."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from agentgym.envs.instructions.published.text import missing
from agentgym.errors import BadData

Arguments = Mapping[str, Any]
RELATIONS = ("less than", "at least")
PATTERN_MARKS = frozenset("\\[](){}|*+?^$")


@dataclass(frozen=True)
class Check:
    """The checker of one kind of instruction."""

    judge: Callable[..., bool]
    takes: Mapping[str, str]
    """Type of each argument.

    One of `count`, `place` (1 to `num_paragraphs`), `number`, `word`, `words`, `literal`, `literals`, `letter`, `relation`
    and `text`.
    """
    needs: str = ""


Table = dict[str, Check]


def checker(table: Table, name: str, needs: str = "", **takes: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Return a decorator that registers a function as the checker of an instruction.

    `needs` names the required package or resource in `text.NEEDS`; `takes` has the type of each argument (`Check.takes`).
    """

    def put(judge: Callable[..., bool]) -> Callable[..., bool]:
        table[name] = Check(judge, takes, needs)
        return judge

    return put


def arguments(table: Table, name: object, values: object, where: str) -> tuple[str, dict[str, Any]]:
    """Return an instruction's name and its converted arguments.

    Raises:
        BadData: the instruction is unknown, a dependency is missing, or the arguments are wrong; the message begins with
            `where`.
    """
    check = table.get(name) if isinstance(name, str) else None
    if check is None or not isinstance(name, str):
        raise BadData(f"{where}: {str(name)[:60]!r} is no instruction; expected one of {', '.join(sorted(table)[:4])}, …")
    if lack := check.needs and missing(check.needs):
        raise BadData(f"{where}: {name} {lack}")
    if not isinstance(values, dict):
        raise BadData(f"{where}: kwargs of {name} are {str(values)[:60]!r}; expected an object")
    non_null = {key: value for key, value in cast("dict[str, object]", values).items() if value is not None}
    if set(non_null) != set(check.takes):
        raise BadData(
            f"{where}: kwargs of {name} are {', '.join(sorted(non_null)) or 'none'}; "
            f"expected {', '.join(check.takes) or 'none'}"
        )
    typed = {key: _typed(kind, non_null[key], f"{where}: {key} of {name}") for key, kind in check.takes.items()}
    for key in (key for key, kind in check.takes.items() if kind == "place"):
        if not 1 <= typed[key] <= typed["num_paragraphs"]:  # published checkers draw another one at random
            most = typed["num_paragraphs"]
            raise BadData(f"{where}: {key} of {name} is {typed[key]}; expected a number from 1 to num_paragraphs, {most}")
    return name, typed


def _typed(kind: str, raw: object, where: str) -> Any:
    value: Any = raw
    good = False
    if kind in ("count", "place", "number") and isinstance(value, int | float) and not isinstance(value, bool):
        whole = 0 <= value < 1e9 and value == int(value)
        value, good = (int(value) if whole else value), whole or (kind == "number" and 0 <= value < 1e9)
    elif kind in ("words", "literals") and isinstance(raw, list):
        words = cast("list[object]", raw)
        good = bool(words) and all(_is_word(word, literal=kind == "literals") for word in words)
    elif kind == "relation":
        good = value in RELATIONS
    elif kind == "letter":
        good = isinstance(value, str) and len(value.strip()) == 1
        value = str(value).strip().lower()
    elif kind in ("word", "literal", "text"):
        good = _is_word(value, literal=kind == "literal")
        value = value.strip() if kind != "text" and isinstance(value, str) else value
    if not good:
        raise BadData(f"{where} is {str(value)[:60]!r}; expected a {kind}")
    return value


def _is_word(value: object, *, literal: bool) -> bool:
    """Return True for non-blank text; a literal must lack regex metacharacters, since checkers use it as a pattern."""
    return isinstance(value, str) and bool(value.strip()) and not (literal and PATTERN_MARKS & set(value))


def compared(count: int, relation: str, limit: int) -> bool:
    """Return True if a count is below the limit (relation `less than`) or not below it (`at least`)."""
    return count < limit if relation == RELATIONS[0] else count >= limit


def finds(literal: str, text: str) -> int:
    """Return the number of occurrences of a literal in a text, ignoring case; a dot in the literal matches any character."""
    return len(re.findall(literal, text, re.IGNORECASE))
