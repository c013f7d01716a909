"""Counts of a run so far: part of every checkpoint."""

import dataclasses
from dataclasses import dataclass
from typing import Any

LOST_STEPS = 3
"""Number of consecutive steps with only faults that ends the run."""


@dataclass(slots=True)
class Tally:
    """Counts over all processes and sessions."""

    position: int = 0
    """Updates so far, including the SFT warm start."""
    seconds: float = 0.0
    played: int = 0
    """Episodes, including demonstrations."""
    lost: int = 0
    """Demonstrations that ended in a fault."""
    rollouts: int = 0
    """Episodes of reinforcement learning."""
    faults: int = 0
    """Episodes of reinforcement learning that ended in a fault."""
    tokens: int = 0
    """Tokens sampled in episodes of reinforcement learning."""
    lost_steps: int = 0
    """Consecutive steps in this session in which every episode was a fault."""
    fault: str = ""
    """Message of the last fault."""

    def count(self, row: dict[str, Any]) -> None:
        """Count the episodes of a step and add the share of faults to its row."""
        number = row.pop("episodes")
        self.played, self.rollouts = self.played + number, self.rollouts + number
        self.faults += row["faults"]
        self.tokens += row["tokens"]
        row["fault_share"] = row["faults"] / max(number, 1)

    def note_faults(self, processes: list[tuple[bool, str]]) -> None:
        """Count consecutive steps in which the episodes of all processes are faults."""
        self.lost_steps = 0 if any(good for good, _ in processes) else self.lost_steps + 1
        self.fault = next((reason for _, reason in processes if reason), "")

    def state_dict(self) -> dict[str, object]:
        """Return the state for a later session."""
        return {**dataclasses.asdict(self), "lost_steps": 0, "fault": ""}
