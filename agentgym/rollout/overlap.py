"""Overlap of training and rollouts: later steps are played while the learner updates, up to a limit."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw, drawn

StepProgress = Callable[[int, Sequence[Draw]], Callable[[Episode], None]]
"""Maps (step, draws) to the progress callback for their episodes."""


class StepRun(Protocol):
    """The functions of a run that a scheduler calls."""

    async def draw(self, step: int, number: int, before: set[str]) -> list[Draw]:
        """Return `number` draws for a step, and add their group ids to `before`, the group ids of the step so far."""
        ...

    async def collect(
        self, draws: Sequence[Draw], step: int, key: str, progress: Callable[[Episode], None] | None = None
    ) -> list[Episode]:
        """Play this process's part of the draws and return the episodes; `key` is unique within a training session."""
        ...

    def group_id(self, draw: Draw, step: int) -> str:
        """Return the group id of a draw of a step."""
        ...

    def find(self, env: str, task_id: str) -> Task:
        """Return the task with this id."""
        ...

    async def meet(self) -> None:
        """Wait until all processes have called this; episodes continue meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on how far rollouts run ahead of training."""

    level: int
    """Maximum number of steps that rollouts are ahead of the step in training."""
    steps: int
    """Total number of training steps."""
    tasks: int
    """Number of groups that each step trains on."""
    oversample: float
    """Number of groups that a round draws, as a multiple of the number that is missing."""
    drawn_by: str
    """Name of the task sampler, for error messages."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step whose episodes are in progress."""

    draws: list[Draw]
    playing: "asyncio.Task[list[Episode]]"


class StepScheduler:
    """Draws and plays steps ahead of time, at most `pace.level` steps beyond the one in training.

    The sampler is paced: the tasks of step s are drawn after the update of step s - level - 1. So at training time no
    token is more than `level` versions old, and no episode is discarded for taking long. Only a step's first round is
    played ahead; selection and further rounds happen during the step itself. `state` is the result of `state_dict` in
    the session that the run continues.
    """

    def __init__(
        self, run: StepRun, pace: Pace, progress: StepProgress, state: Mapping[int, Sequence[Mapping[str, Any]]]
    ) -> None:
        self.run, self.pace, self.progress = run, pace, progress
        self.plans: dict[int, InFlight] = {}
        self._groups: set[str] = set()
        """Ids of the groups that the current step has drawn."""
        self._again = {
            int(step): [drawn(run.find(values["env"], values["task"]), values) for values in draws]
            for step, draws in state.items()
        }

    async def round(self, step: int, number: int, missing: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a step's round, and this process's episodes of these draws.

        The first round (number 0) was started ahead; a later round draws new tasks to replace the `missing` groups.
        """
        if number == 0:
            draws, episodes = await self.take(step)
            self._groups = {self.run.group_id(draw, step) for draw in draws}
            return draws, episodes
        draws = await self.run.draw(step, math.ceil(missing * self.pace.oversample), self._groups)
        return draws, await self.run.collect(draws, step, f"{step}/{number}", self.progress(step, draws))

    async def take(self, step: int) -> tuple[list[Draw], list[Episode]]:
        """Return a step's draws and this process's episodes; also start later steps as far as allowed."""
        for number in range(step, min(step + self.pace.level + 1, self.pace.steps)):
            if number not in self.plans:
                self.plans[number] = await self._begun(number)
        plan = self.plans.pop(step)
        episodes = await plan.playing
        if self.pace.level:  # the others wait too, while later steps continue
            await self.run.meet()
        return plan.draws, episodes

    async def _begun(self, step: int) -> InFlight:
        """Draw the tasks of a step, or take those of an earlier session, and start to play them."""
        again = self._again.pop(step, None)
        draws = again or await self.run.draw(step, math.ceil(self.pace.tasks * self.pace.oversample), set())
        for draw in draws if self.pace.level else ():
            _check(draw, self.pace.drawn_by)
        playing = asyncio.ensure_future(self.run.collect(draws, step, f"{step}/0", self.progress(step, draws)))
        playing.add_done_callback(_retrieve_exception)
        return InFlight(draws, playing)

    def state_dict(self) -> dict[int, list[dict[str, Any]]]:
        """Return the draws of each step in flight, for a later session: its sampler will not draw them again."""
        known = {**self._again, **{step: plan.draws for step, plan in self.plans.items()}}
        return {step: [draw.plain() for draw in draws] for step, draws in known.items()}


def _retrieve_exception(playing: "asyncio.Task[list[Episode]]") -> None:
    """Mark an exception as retrieved, so asyncio does not report it; the step reports it, if the run reaches that step."""
    if not playing.cancelled():
        playing.exception()


def _check(draw: Draw, drawn_by: str) -> None:
    """Check that a checkpoint can store a draw.

    Raises:
        BadConfig: the draw has a start.
    """
    if draw.start is not None:
        raise BadConfig(
            f"{drawn_by} drew task {draw.task.id!r} with a start, and a checkpoint cannot store the starts of episodes in "
            "flight: leave async_level at 0"
        )
