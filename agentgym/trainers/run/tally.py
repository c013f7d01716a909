"""What a run has counted so far: part of every checkpoint."""

import dataclasses
from dataclasses import dataclass
from typing import Any

LOST_STEPS = 3
"""So many steps one after another in which every episode is a fault end the run."""


@dataclass(slots=True)
class Tally:
    """Counts over all processes and sessions."""

    position: int = 0
    """Updates so far, those of the SFT warm start included."""
    seconds: float = 0.0
    played: int = 0
    """Episodes, demonstrations included."""
    lost: int = 0
    """Demonstrations that ended in a fault."""
    rollouts: int = 0
    """Episodes of reinforcement learning."""
    faults: int = 0
    """Those of them that ended in a fault."""
    tokens: int = 0
    """Sampled in them."""
    lost_steps: int = 0
    """Steps, one after another in this session, in which every episode was a fault."""
    fault: str = ""
    """What the last fault said."""

    def count(self, row: dict[str, Any]) -> None:
        """Count the episodes of a step, and write the share of faults into its row."""
        number = row.pop("episodes")
        self.played, self.rollouts = self.played + number, self.rollouts + number
        self.faults += row["faults"]
        self.tokens += row["tokens"]
        row["fault_share"] = row["faults"] / max(number, 1)

    def note_faults(self, processes: list[tuple[bool, str]]) -> None:
        """Count the steps, one after another, in which the episodes of all processes are faults."""
        self.lost_steps = 0 if any(good for good, _ in processes) else self.lost_steps + 1
        self.fault = next((reason for _, reason in processes if reason), "")

    def state_dict(self) -> dict[str, object]:
        """Return what a later session goes on with."""
        return {**dataclasses.asdict(self), "lost_steps": 0, "fault": ""}
