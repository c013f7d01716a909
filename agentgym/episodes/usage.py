"""Usage of a model request: tokens counted by its server, reported cost, and seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as its server counted them."""

    input: int
    """Number of prompt tokens, including those read from or written to a cache."""
    output: int
    """Number of reply tokens, including reasoning."""
    cached: int = 0
    """Number of prompt tokens read from the server's cache."""
    written: int = 0
    """Number of prompt tokens written to the server's cache, if it charges for them separately."""
    reasoning: int = 0
    """Number of reply tokens that are reasoning."""
    cost: float | None = None
    """Cost in US dollars, if the server reports it."""


_KEYS = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cached": "cached_tokens",
    "written": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
}
MOST_TOKENS = 10**9
"""Largest token count that is believed for one request; a larger one from a server is invalid."""
MOST = 1e9
"""Largest number of US dollars or seconds that is believed; a larger one from outside is invalid."""
SECONDS = "request_seconds"
"""Key in `Turn.extra` for the seconds of the answered request, without waiting and retries."""


def to_extra(usage: Usage | None, seconds: float) -> dict[str, float]:
    """Return the entries for a turn's `extra` with a request's usage and duration."""
    extra: dict[str, float] = {SECONDS: seconds} if seconds else {}
    if usage is None:
        return extra
    counts = {key: getattr(usage, name) for name, key in _KEYS.items()}
    extra |= {key: count for key, count in counts.items() if count or key in ("prompt_tokens", "completion_tokens")}
    return extra if usage.cost is None else {**extra, "cost": usage.cost}


def from_extra(extra: Mapping[str, Any]) -> Usage | None:
    """Return the usage stored in a turn's `extra`; None if it is missing or malformed."""
    if "completion_tokens" not in extra:
        return None
    counts = {name: count(extra.get(key, 0)) for name, key in _KEYS.items()}
    known = {name: number for name, number in counts.items() if number is not None}
    if len(known) < len(counts):
        return None
    return Usage(**known, cost=amount(extra.get("cost")))


def output_tokens(sampled: int, extra: Mapping[str, Any]) -> int:
    """Return the number of tokens in a turn's replies: `sampled` if it is not 0, else the server's count, else 0."""
    counted = None if sampled else from_extra(extra)
    return counted.output if counted else sampled


def count(value: object) -> int | None:
    """Return a token count from outside; None if it is not an integer from 0 to `MOST_TOKENS`."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def amount(value: object) -> float | None:
    """Return a number from outside; None if it is not a number from 0 to `MOST`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None  # NaN is neither
