"""Success values and amounts from third-party code: convert accepted values, and raise an error for all others."""

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

NUMPYS: type[Any] = np.bool_
NUMBERS: tuple[type[Any], ...] = (bool, int, float, np.bool_, np.integer, np.floating)


def verdict(value: Any, source: str) -> bool | None:
    """Return a success as True, False or None.

    Only these values and NumPy's booleans are accepted, because nan, `"false"` and `(False, "why")` are all true in
    Python.

    Raises:
        TypeError: any other value; the message names the source.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, NUMPYS):
        return bool(value)
    raise TypeError(
        f"{source} is {value!r:.80} (type {type(value).__name__}); expected True, False, or None while undecided. "
        "Compare explicitly, for example success=score >= 1"
    )


def amount(value: Any, source: str) -> float:
    """Return a reward or measure as a float.

    Raises:
        TypeError: the value is not a finite real number; the message names the source.
    """
    if isinstance(value, NUMBERS):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise TypeError(f"{source} is {value!r:.80} (type {type(value).__name__}); expected a finite number")


def amounts(values: Any, source: str) -> dict[str, float]:
    """Return named rewards or measures as floats.

    Raises:
        TypeError: `values` is not a mapping, or a value is not a finite number; the message names source and key.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{source} are {values!r:.80}; expected numbers by name")
    return {str(name): amount(value, f"{name!r} of {source}") for name, value in cast("Mapping[str, Any]", values).items()}


def ended(value: Any, source: str) -> bool:
    """Return `value`, which says if an episode has ended, as True or False.

    Raises:
        TypeError: the value is not a boolean; the message names the source.
    """
    if value is None or (decided := verdict(value, source)) is None:
        raise TypeError(f"{source} is {value!r}; expected True or False")
    return decided
