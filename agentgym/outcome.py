"""What an action brought, and what an episode consists of at one moment."""

from dataclasses import dataclass, field
from typing import Any

from agentgym.tasks import Task


@dataclass(slots=True)
class Outcome:
    """What one action brought. Worlds make it through `win`, `lose`, `invalid` and `reward`, or return plain text."""

    text: str
    valid: bool = True
    error: str | None = None
    success: bool | None = None
    measures: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of an episode that `restore` needs to go on as if nothing had happened."""

    task: Task
    seed: int
    turn: int
    horizon: int
    running: bool
    success: bool | None
    random_state: dict[str, Any]
    levels: dict[str, float]
    totals: dict[str, float]
    observation: str
    payload: Any
