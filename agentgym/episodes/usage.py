"""Usage of a model request: tokens as counted by its server, reported cost, and seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request as counted by the server."""

    input: int
    """Prompt tokens, including those read from or written to a cache."""
    output: int
    """Reply tokens, including reasoning."""
    cached: int = 0
    """Input tokens read from the server's cache."""
    written: int = 0
    """Input tokens written to its cache at a separate price."""
    reasoning: int = 0
    """Output tokens of the reasoning."""
    cost: float | None = None
    """US dollars, if the server reports them."""


_KEYS = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cached": "cached_tokens",
    "written": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
}
MOST_TOKENS = 10**9
"""Largest accepted token count of one request; a server's larger count is invalid."""
MOST = 1e9
"""Largest accepted external amount, in US dollars or seconds."""
SECONDS = "request_seconds"
"""Key in `Turn.extra` of the duration of the answered request, without waiting and retries."""


def to_extra(usage: Usage | None, seconds: float) -> dict[str, float]:
    """Return the entries of a turn's `extra` for a request."""
    extra: dict[str, float] = {SECONDS: seconds} if seconds else {}
    if usage is None:
        return extra
    counts = {key: getattr(usage, name) for name, key in _KEYS.items()}
    extra |= {key: count for key, count in counts.items() if count or key in ("prompt_tokens", "completion_tokens")}
    return extra if usage.cost is None else {**extra, "cost": usage.cost}


def from_extra(extra: Mapping[str, Any]) -> Usage | None:
    """Return the usage in a turn's `extra`; None if it is missing or malformed."""
    counts = {name: count(extra.get(key, 0)) for name, key in _KEYS.items()}
    known = {name: number for name, number in counts.items() if number is not None}
    if "completion_tokens" not in extra or len(known) < len(counts):
        return None
    return Usage(**known, cost=amount(extra.get("cost")))


def output_tokens(sampled: int, extra: Mapping[str, Any]) -> int:
    """Return the tokens of a turn's replies: those sampled here, else the server's count; 0 if nobody counted."""
    counted = None if sampled else from_extra(extra)
    return counted.output if counted else sampled


def count(value: object) -> int | None:
    """Return an external token count if it is an integer from 0 to `MOST_TOKENS`, else None."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def amount(value: object) -> float | None:
    """Return an external number if it is from 0 to `MOST`, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None  # NaN is neither
