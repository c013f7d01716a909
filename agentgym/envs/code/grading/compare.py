"""Comparison of a program's results with the expected results."""

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from agentgym.rewards.programs.values import by_key, unpack


def same(expected: object, got: object, tolerance: float = 0.0) -> bool:
    """Return True if two packed values are equal, including their types.

    Floats may differ by `tolerance`: an absolute difference up to a value of 1, a relative one above.
    """
    if type(expected) is not type(got):
        return False
    if type(expected) is list:
        left, right = cast("list[object]", expected), cast("list[object]", got)
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in zip(left, right, strict=False))
    if type(expected) is not dict:
        return bool(expected == got)
    ((tag, content),), other = cast("dict[str, Any]", expected).items(), cast("dict[str, Any]", got)
    if tag not in other:
        return False
    if tag == "d":
        return same(by_key(content), by_key(other[tag]), tolerance)
    if tag != "f":
        return same(content, other[tag], tolerance)
    if content == other[tag]:
        return True
    return _close(float.fromhex(content), float.fromhex(other[tag]), tolerance)


def equal(expected: object, got: object, tolerance: float = 0.0) -> bool:
    """Return True if two packed values are equal by Python's `==`, except that floats may differ by `tolerance`.

    Tuples count as lists, since JSON has no tuples.
    """
    left, right = _listed(unpack(expected)), _listed(unpack(got))
    return _equal(left, right, tolerance) if tolerance else bool(left == right)


def result(expected: object, got: object, tolerance: float = 0.0) -> bool:
    """Return True if a packed value equals the expected value by Python's `==`; a top-level tuple counts as a list.

    This is LiveCodeBench's comparison of a function's result (`grade_call_based`); inner tuples do not equal lists, and
    `tolerance` is ignored.
    """
    left, right = unpack(expected), unpack(got)
    return bool((list(cast("tuple[object]", right)) if isinstance(right, tuple) else right) == left)


def results(expected: object, got: object, tolerance: float = 0.0) -> bool:
    """Return True if two lists of packed values are equal element by element, as `result` compares them."""
    left, right = cast("list[object]", expected), cast("list[object]", got)
    return type(left) is type(right) is list and len(left) == len(right) and all(map(result, left, right))


def _equal(left: object, right: object, tolerance: float) -> bool:
    """Return True if two values are equal; floats, also in lists and dictionaries, may differ by the tolerance."""
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(cast("list[object]", left), cast("list[object]", right), strict=False)
        return len(cast("list[object]", left)) == len(cast("list[object]", right)) and all(
            _equal(a, b, tolerance) for a, b in pairs
        )
    if isinstance(left, dict) and isinstance(right, dict):
        first, second = cast("dict[object, object]", left), cast("dict[object, object]", right)
        return first.keys() == second.keys() and all(_equal(first[key], second[key], tolerance) for key in first)
    if isinstance(left, float) and isinstance(right, int | float):
        return left == right or _close(left, right, tolerance)
    return bool(left == right)


def _close(left: float, right: float, tolerance: float) -> bool:
    """Return True if `right` is close to the expected number `left`; no number is close to infinity."""
    return math.isfinite(left) and abs(left - right) <= tolerance * max(1.0, abs(left))


def _listed(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in cast("list[object]", value)]
    return (
        {key: _listed(item) for key, item in cast("dict[object, object]", value).items()}
        if isinstance(value, dict)
        else value
    )


def same_lines(expected: str, got: str, tolerance: float = 0.0) -> bool:
    """Return True if two outputs have equal lines; a line may differ in outer whitespace, or in the form of its numbers.

    This is LiveCodeBench's comparison of a program's output (`lcb_runner/evaluation/testing_util.py`); `tolerance` is
    ignored.
    """
    left, right = ([line.strip() for line in text.strip().split("\n")] for text in (expected, got))
    return len(left) == len(right) and all(a == b or _same_numbers(a, b) for a, b in zip(left, right, strict=True))


def _same_numbers(left: str, right: str) -> bool:
    try:
        return [Decimal(word) for word in left.split()] == [Decimal(word) for word in right.split()]
    except InvalidOperation:
        return False


def same_words(expected: str, got: str, tolerance: float = 1e-5) -> bool:
    """Return True if two outputs have the same words, ignoring whitespace; floats may differ by `tolerance`.

    This is CodeContests' comparison of a program's output. `tolerance` is absolute for values up to 1, and relative above.
    Expected integers must be exact.
    """
    left, right = expected.split(), got.split()
    return len(left) == len(right) and all(a == b or _near(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _near(left: str, right: str, tolerance: float) -> bool:
    if left.lstrip("-").isdigit():  # integers must be exact
        return False
    try:
        a, b = float(left), float(right)
    except ValueError:
        return False
    return _close(a, b, tolerance)


COMPARISONS: dict[str, Callable[[Any, Any, float], bool]] = {
    "exact": same,
    "equal": equal,
    "result": result,
    "results": results,
    "lines": same_lines,
    "words": same_words,
}
"""Comparisons by name; `lines` and `words` compare text, the others packed values."""
