"""Counters of a run, which are part of every checkpoint."""

import dataclasses
from dataclasses import dataclass
from typing import Any

LOST_STEPS = 3
"""Number of consecutive steps with nothing but faults after which the run ends."""


@dataclass(slots=True)
class Tally:
    """Counts over all processes and sessions."""

    position: int = 0
    """Number of SFT updates and training steps so far."""
    seconds: float = 0.0
    played: int = 0
    """Number of episodes, including faultless demonstrations."""
    lost: int = 0
    """Number of demonstrations that ended in a fault."""
    rollouts: int = 0
    """Number of episodes of reinforcement learning."""
    faults: int = 0
    """Number of episodes of reinforcement learning that ended in a fault."""
    tokens: int = 0
    """Number of tokens sampled in episodes of reinforcement learning."""
    lost_steps: int = 0
    """Number of consecutive steps, in this session, in which every episode was a fault."""
    fault: str = ""
    """Message of a fault in the last step; empty if the step had none."""

    def count(self, row: dict[str, Any]) -> None:
        """Add a step's counts; in its row of metrics, replace `episodes` by `fault_share`."""
        number = row.pop("episodes")
        self.played, self.rollouts = self.played + number, self.rollouts + number
        self.faults += row["faults"]
        self.tokens += row["tokens"]
        row["fault_share"] = row["faults"] / max(number, 1)

    def note_faults(self, processes: list[tuple[bool, str]]) -> None:
        """Update the number of consecutive steps with nothing but faults.

        `processes`: per process, True if an episode was faultless, and the message of the first fault.
        """
        self.lost_steps = 0 if any(good for good, _ in processes) else self.lost_steps + 1
        self.fault = next((reason for _, reason in processes if reason), "")

    def state_dict(self) -> dict[str, object]:
        """Return the counters to resume from; `lost_steps` and `fault` start over."""
        return {**dataclasses.asdict(self), "lost_steps": 0, "fault": ""}
