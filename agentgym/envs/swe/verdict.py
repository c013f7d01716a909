"""What hidden tests say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the hidden tests say about a repair."""

    resolved: bool
    fail_to_pass: float
    """Share of the tests of the issue that passed."""
    pass_to_pass: float
    """Share of the tests that passed before and passed now."""
    said: str
    """In one line, without the name of a test."""
