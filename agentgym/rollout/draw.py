"""A task that is drawn to be played: one group of episodes, and how it differs from the run's settings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agentgym.core.hints import Hint
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig
from agentgym.rollout.play import Start


@dataclass(frozen=True, slots=True)
class Draw:
    """A task to play: one group of episodes."""

    task: Task
    epoch: int = 0
    """How often the split was gone through before: part of the seeds and the session, so that a task which comes twice in
    a step is played in two ways."""
    env: str = ""
    """The environment's name in the run."""
    attempts: int | None = None
    """Episodes; None for the run's group size."""
    horizon: int | None = None
    """Turns; None for the run's schedule."""
    sampling: Mapping[str, float] = field(default_factory=dict[str, float])
    """What of the agent's way to draw replies is different."""
    start: Start | None = None
    """Where the episodes begin; None at the beginning of the task."""
    label: str = ""
    """What tells two groups of one task and epoch apart, such as two starts."""
    hint: Hint | None = None
    """What the agent is told besides; None for nothing."""
    hinted: int | None = None
    """How many of the attempts, the last ones, have the hint; None for all of them."""

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
        """Return it as plain data, for a checkpoint; without its start, which no checkpoint holds."""
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
    """Return the draw of a task that `plain` returned."""
    others = {name: value for name, value in values.items() if name not in ("task", "hint")}
    hint = values.get("hint")
    others["hint"] = None if hint is None else Hint(**hint)
    return Draw(task, **others)


def check_sampling(draw: Draw) -> None:
    """Raise BadConfig for a way to draw replies whose log-probabilities the trainer cannot compute."""
    for name, value in draw.sampling.items():
        if name not in ("temperature", "max_tokens"):
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; training takes only temperature and max_tokens")
        if not value > 0:
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; expected more than 0")
