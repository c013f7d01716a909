"""Variants of a task's public inputs, on which solutions can be compared with each other."""

import math
import re
from typing import Any, cast

import numpy as np

NUMBER = re.compile(r"-?[0-9]{1,18}")
DIGITS = re.compile(r"[0-9]{1,18}")
FEW = 12
"""Default number of variants."""


def variants(inputs: list[Any], kind: str, rng: np.random.Generator, number: int = FEW) -> list[Any]:
    """Return `number` variants of randomly chosen `inputs`.

    An input is the packed list of a function's arguments, or the standard input of a program. A variant has other numbers,
    from 1 to twice the size, and list arguments in another order, possibly shorter. Texts get other digits or, if they have
    none, their letters in another order. A variant may break a rule of the task, such as a sorted list; solutions that agree
    even then are likely equivalent. A program's input gets other numbers only, except in the first line if others follow,
    since it often gives their number.
    """
    change = _text if kind == "program" else _value
    return [change(inputs[int(rng.integers(len(inputs)))], rng) for _ in range(number)]


def _text(text: str, rng: np.random.Generator) -> str:
    first, newline, rest = str(text).partition("\n")
    if not newline or not rest.strip():
        return NUMBER.sub(lambda match: str(_integer(int(match[0]), rng)), first) + newline + rest
    return first + newline + NUMBER.sub(lambda match: str(_integer(int(match[0]), rng)), rest)


def _value(value: Any, rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a variant of a packed value; at depth 0, the list of arguments keeps its length and order."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return _integer(value, rng)
    if isinstance(value, str):
        if DIGITS.search(value):  # dates, versions, codes: the same form with other numbers
            return DIGITS.sub(lambda match: str(_integer(int(match[0]), rng)).zfill(len(match[0])), value)
        return "".join(value[int(place)] for place in rng.permutation(len(value)))
    if isinstance(value, list):
        items = [_value(item, rng, depth + 1) for item in cast("list[Any]", value)]
        if depth != 1 or len(items) < 2 or isinstance(items[0], list):  # lists in a list may be rows of one width
            return items
        return [items[int(place)] for place in rng.permutation(len(items))[: int(rng.integers(1, len(items) + 1))]]
    return _tagged(value, rng)


def _tagged(value: Any, rng: np.random.Generator) -> Any:
    """Return a variant of a packed float, tuple or dictionary, an object with one key (`programs.values.pack`)."""
    ((kind, content),) = value.items()
    if kind == "f" and math.isfinite(number := float.fromhex(content)):
        return {"f": round(number * float(rng.uniform(0.5, 1.5)), 3).hex()}
    if kind == "t":
        return {"t": [_value(item, rng, 2) for item in content]}
    if kind == "d":
        return {"d": [[key, _value(item, rng, 2)] for key, item in content]}
    return value  # sets, bytes and the like stay as they are


def _integer(value: int, rng: np.random.Generator) -> int:
    """Return a random integer with the same sign and about the same size; 0 stays 0."""
    size = abs(value)
    other = int(rng.integers(1, min(2 * size, 1 << 62) + 1)) if size else 0
    return -other if value < 0 else other
