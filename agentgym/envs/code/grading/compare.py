"""Whether what a program gave is what was expected."""

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from agentgym.rewards.programs.values import by_key, unpack


def same(expected: Any, got: Any, tolerance: float = 0.0) -> bool:
    """Return whether two packed values are equal, types included; floats may differ by `tolerance`, relative above 1."""
    if type(expected) is not type(got):
        return False
    if type(expected) is list:
        pairs = zip(cast("list[Any]", expected), got, strict=False)
        return len(cast("list[Any]", expected)) == len(got) and all(same(a, b, tolerance) for a, b in pairs)
    if type(expected) is not dict:
        return bool(expected == got)
    ((tag, content),) = cast("dict[str, Any]", expected).items()
    if tag not in got:
        return False
    if tag == "d":
        return same(by_key(content), by_key(got[tag]), tolerance)
    if tag != "f":
        return same(content, got[tag], tolerance)
    if content == got[tag]:
        return True
    return _close(float.fromhex(content), float.fromhex(got[tag]), tolerance)


def equal(expected: object, got: Any, tolerance: float = 0.0) -> bool:
    """Return whether two packed values are equal to Python's `==`, tuples taken as lists: files in JSON know no others."""
    one, two = _listed(unpack(expected)), _listed(unpack(got))
    return _equal(one, two, tolerance) if tolerance else bool(one == two)


def _equal(one: Any, two: object, tolerance: float) -> bool:
    """Return whether two values are equal but for the floats in their lists and under their keys, which may be near."""
    if isinstance(one, list) and isinstance(two, list):
        pairs = zip(cast("list[Any]", one), cast("list[Any]", two), strict=False)
        return len(cast("list[object]", one)) == len(cast("list[object]", two)) and all(
            _equal(a, b, tolerance) for a, b in pairs
        )
    if isinstance(one, dict) and isinstance(two, dict):
        first, second = cast("dict[object, object]", one), cast("dict[object, object]", two)
        return first.keys() == second.keys() and all(_equal(first[key], second[key], tolerance) for key in first)
    if isinstance(one, float) and isinstance(two, int | float):
        return one == two or _close(one, two, tolerance)
    return bool(one == two)


def _close(one: float, two: float, tolerance: float) -> bool:
    """Return whether a number is near to the expected one; to an infinite one, which is as far from all, none is."""
    return math.isfinite(one) and abs(one - two) <= tolerance * max(1.0, abs(one))


def _listed(value: Any) -> object:
    if isinstance(value, list | tuple):
        return [_listed(one) for one in cast("list[object]", value)]
    return (
        {key: _listed(one) for key, one in cast("dict[object, object]", value).items()} if isinstance(value, dict) else value
    )


def same_lines(expected: str, got: str, tolerance: float = 0.0) -> bool:
    """Return whether two outputs have the same lines, spaces around them aside, or the same numbers on a line.

    As LiveCodeBench compares the output of a program (`lcb_runner/evaluation/testing_util.py`).
    """
    one, two = ([line.strip() for line in text.strip().split("\n")] for text in (expected, got))
    return len(one) == len(two) and all(a == b or _same_numbers(a, b) for a, b in zip(one, two, strict=True))


def _same_numbers(one: str, two: str) -> bool:
    try:
        return [Decimal(word) for word in one.split()] == [Decimal(word) for word in two.split()]
    except InvalidOperation:
        return False


def same_words(expected: str, got: str, tolerance: float = 1e-5) -> bool:
    """Return whether two outputs have the same words, whatever space is between them; numbers may differ by `tolerance`.

    As CodeContests compares the output of a program.
    """
    one, two = expected.split(), got.split()
    return len(one) == len(two) and all(a == b or _near(a, b, tolerance) for a, b in zip(one, two, strict=True))


def _near(one: str, two: str, tolerance: float) -> bool:
    if one.lstrip("-").isdigit():  # whole numbers are exact
        return False
    try:
        a, b = float(one), float(two)
    except ValueError:
        return False
    return _close(a, b, tolerance)


COMPARISONS: dict[str, Callable[[Any, Any, float], bool]] = {
    "exact": same,
    "equal": equal,
    "lines": same_lines,
    "words": same_words,
}
"""How results are compared: packed values the first two, text the others."""
