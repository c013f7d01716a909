"""The verdict on a repair."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """The hidden tests' verdict on a repair."""

    resolved: bool
    fail_to_pass: float
    """Share of the issue's tests that pass."""
    pass_to_pass: float
    """Share of the previously passing tests that pass."""
    message: str
    """One-line summary without test names."""
