"""What a request to a model took: tokens as its server counted them, what it says that they cost, and seconds."""

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
MOST_TOKENS = 10**9
"""Tokens of one request beyond which a server's count is no count."""
MOST = 1e9
"""US dollars, or seconds, beyond which a number that someone else wrote is no amount."""
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
    counts = {name: count(extra.get(key, 0)) for name, key in _KEYS.items()}
    known = {name: number for name, number in counts.items() if number is not None}
    if "completion_tokens" not in extra or len(known) < len(counts):
        return None
    return Usage(**known, cost=amount(extra.get("cost")))


def count(value: object) -> int | None:
    """Return a number of tokens that someone else wrote, from 0 to `MOST_TOKENS`; None for anything else."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def amount(value: object) -> float | None:
    """Return a number that someone else wrote, from 0 to `MOST`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None  # NaN is neither
