"""What a request to a model took: tokens as its server counted them, what it says that they cost, and seconds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request as a server counted them."""

    input: int
    """Tokens of the prompt, with those that came from or went into a cache."""
    output: int
    """Tokens of the reply, with those of its reasoning."""
    cached: int = 0
    """Of the input, those that the server had in its cache."""
    written: int = 0
    """Of the input, those that it put into its cache for a price of their own."""
    reasoning: int = 0
    """Of the output, those of the reasoning."""
    cost: float | None = None
    """US dollars, where the server says so."""


_KEYS = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cached": "cached_tokens",
    "written": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
}
SECONDS = "request_seconds"
"""The key in `Turn.extra` of how long the request took that was answered, without waiting and retries."""


def to_extra(usage: Usage | None, seconds: float) -> dict[str, float]:
    """Return what a turn keeps of a request in its `extra`."""
    extra: dict[str, float] = {SECONDS: seconds} if seconds else {}
    if usage is None:
        return extra
    counts = {key: getattr(usage, name) for name, key in _KEYS.items()}
    extra |= {key: count for key, count in counts.items() if count or key in ("prompt_tokens", "completion_tokens")}
    return extra if usage.cost is None else {**extra, "cost": usage.cost}


def from_extra(extra: Mapping[str, Any]) -> Usage | None:
    """Return the usage that a turn keeps in its `extra`; None where there is none, or what is there is none."""
    counts = {name: extra.get(key, 0) for name, key in _KEYS.items()}
    if "completion_tokens" not in extra or not all(type(count) is int and count >= 0 for count in counts.values()):
        return None
    cost = amount(extra.get("cost"))
    return Usage(**counts, cost=cost)


def amount(value: object) -> float | None:
    """Return a number from 0 that someone else wrote; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
