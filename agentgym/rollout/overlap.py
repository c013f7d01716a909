"""Overlap: play the episodes of later steps while the learner is at an earlier one, within a limit."""

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
"""Maps a step and its draws to the progress callback of their episodes."""


class StepRun(Protocol):
    """A run whose steps are drawn and played."""

    async def draw(self, step: int, number: int, before: set[str]) -> list[Draw]:
        """Return the tasks of a step; `before`: the groups that the step has so far."""
        ...

    async def collect(
        self, draws: Sequence[Draw], step: int, key: str, progress: Callable[[Episode], None] | None = None
    ) -> list[Episode]:
        """Play this process's part of the draws."""
        ...

    def group_id(self, draw: Draw, step: int) -> str:
        """Return the group id of a draw of a step."""
        ...

    def find(self, env: str, task_id: str) -> Task:
        """Return the task with this id."""
        ...

    async def meet(self) -> None:
        """Wait until all processes are here, while episodes continue."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on how far ahead a run plays."""

    level: int
    """Steps ahead of the trained one."""
    steps: int
    """Steps of the run."""
    tasks: int
    """Groups per step to train on."""
    oversample: float
    """Multiple of that number to draw in each round."""
    drawn_by: str
    """Name of the drawer, for errors."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step whose episodes are being played."""

    draws: list[Draw]
    playing: "asyncio.Task[list[Episode]]"


class StepScheduler:
    """Draws and plays steps ahead of time: at most `pace.level` beyond the trained one.

    The sampler is paced: the tasks of step s are drawn when the update of step s - level - 1 is over, so no token is more
    than `level` versions old when it is trained, and no episode is discarded for being long. Only a step's first round is
    played ahead; selection and its further rounds happen during the step.
    """

    def __init__(
        self, run: StepRun, pace: Pace, progress: StepProgress, state: Mapping[int, Sequence[Mapping[str, Any]]]
    ) -> None:
        self.run, self.pace, self.progress = run, pace, progress
        self.plans: dict[int, InFlight] = {}
        self._groups: set[str] = set()
        """Groups that the current step has drawn."""
        self._again = {
            int(step): [drawn(run.find(values["env"], values["task"]), values) for values in draws]
            for step, draws in state.items()
        }

    async def round(self, step: int, number: int, missing: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a round of a step and this process's episodes of them.

        The first round was started ahead; a later one draws fresh tasks for the `missing` groups.
        """
        if number == 0:
            draws, episodes = await self.take(step)
            self._groups = {self.run.group_id(draw, step) for draw in draws}
            return draws, episodes
        draws = await self.run.draw(step, math.ceil(missing * self.pace.oversample), self._groups)
        return draws, await self.run.collect(draws, step, f"{step}/{number}", self.progress(step, draws))

    async def take(self, step: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a step and this process's episodes of them; start later steps as far as allowed."""
        for number in range(step, min(step + self.pace.level + 1, self.pace.steps)):
            if number not in self.plans:
                self.plans[number] = await self._begun(number)
        plan = self.plans.pop(step)
        episodes = await plan.playing
        if self.pace.level:  # the others wait too, while later steps continue
            await self.run.meet()
        return plan.draws, episodes

    async def _begun(self, step: int) -> InFlight:
        """Draw a step and start to play it."""
        again = self._again.pop(step, None)
        draws = again or await self.run.draw(step, math.ceil(self.pace.tasks * self.pace.oversample), set())
        for draw in draws if self.pace.level else ():
            _check(draw, self.pace.drawn_by)
        playing = asyncio.ensure_future(self.run.collect(draws, step, f"{step}/0", self.progress(step, draws)))
        playing.add_done_callback(_retrieve_exception)
        return InFlight(draws, playing)

    def state_dict(self) -> dict[int, list[dict[str, Any]]]:
        """Return the steps in flight, which a later session plays from the start: its sampler will not draw them again."""
        known = {**self._again, **{step: plan.draws for step, plan in self.plans.items()}}
        return {step: [draw.plain() for draw in draws] for step, draws in known.items()}


def _retrieve_exception(playing: "asyncio.Task[list[Episode]]") -> None:
    """Mark a failure as retrieved: the step itself reports it, if the run gets there."""
    if not playing.cancelled():
        playing.exception()


def _check(draw: Draw, drawn_by: str) -> None:
    """Check that a checkpoint can store a draw.

    Raises:
        BadConfig: it has a start.
    """
    if draw.start is not None:
        raise BadConfig(
            f"{drawn_by} drew task {draw.task.id!r} with a start, and a checkpoint cannot store the starts of episodes in "
            "flight: leave async_level at 0"
        )
