"""A drawn task: one group of episodes, with settings that differ from the run's."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agentgym.core.hints import Hint, stored_hint
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig
from agentgym.rollout.play import Start


@dataclass(frozen=True, slots=True)
class Draw:
    """A task to play as one group of episodes."""

    task: Task
    epoch: int = 0
    """Number of earlier passes through the split. It is part of seeds and session names, so a task drawn twice in a
    step is played differently each time."""
    env: str = ""
    """Name of the environment in the run."""
    attempts: int | None = None
    """Number of episodes; None for the run's group size."""
    horizon: int | None = None
    """Maximum turns per episode; None for the run's schedule, or in an evaluation for the environment's default."""
    sampling: Mapping[str, float] = field(default_factory=dict[str, float])
    """Sampling settings that differ from the agent's."""
    start: Start | None = None
    """Start of the episodes; None for the beginning of the task."""
    label: str = ""
    """Distinguishes groups of the same task and epoch, such as those with different starts."""
    hint: Hint | None = None
    """Hint for the agent; None for no hint."""
    hinted: int | None = None
    """Number of attempts with the hint, counted from the last attempt; None for all."""

    def __post_init__(self) -> None:
        for name in ("attempts", "horizon", "hinted"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadConfig(f"{name} of a draw of task {self.task.id!r} is {value}; expected at least 1, or None")
        if self.hinted is not None and self.hint is None:
            raise BadConfig(f"a draw of task {self.task.id!r} has hinted {self.hinted} and no hint; give it one")
        if self.hint is not None and self.start is not None:
            raise BadConfig(
                f"a draw of task {self.task.id!r} has a start and a hint: a hint cannot be added to a conversation that "
                "has begun, so remove one of the two"
            )

    def plain(self) -> dict[str, object]:
        """Return the draw as plain data for a checkpoint. The start is left out, since a checkpoint cannot store it."""
        return {
            "env": self.env,
            "task": self.task.id,
            "epoch": self.epoch,
            "attempts": self.attempts,
            "horizon": self.horizon,
            "sampling": dict(self.sampling),
            "label": self.label,
            "hint": None if self.hint is None else asdict(self.hint),
            "hinted": self.hinted,
        }


def drawn(task: Task, values: Mapping[str, Any]) -> Draw:
    """Rebuild the draw of a task from the result of `plain`."""
    others = {name: value for name, value in values.items() if name not in ("task", "hint")}
    others["hint"] = stored_hint(values.get("hint"))
    return Draw(task, **others)


def check_sampling(draw: Draw) -> None:
    """Check that the trainer can compute log-probabilities for a draw's sampling settings.

    Raises:
        BadConfig: a setting is neither temperature nor max_tokens, or is not above 0.
    """
    for name, value in draw.sampling.items():
        if name not in ("temperature", "max_tokens"):
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; training takes only temperature and max_tokens")
        if not value > 0:
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; expected more than 0")
