"""Overlap: the episodes of later steps are played while the learner is at an earlier one, never too far ahead of it."""

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
"""Of a step and its draws, what shows how many of their episodes have ended."""


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
        """Return what the episodes of a draw of a step have in common."""
        ...

    def find(self, env: str, task_id: str) -> Task:
        """Return the task of an id."""
        ...

    async def meet(self) -> None:
        """Wait until all processes are here, while episodes go on."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How far ahead a run may play."""

    level: int
    """Steps beyond the one that is trained."""
    steps: int
    """Steps of the run."""
    tasks: int
    """Groups that a step trains on."""
    oversample: float
    """Times as many are drawn in each round."""
    drawn_by: str
    """What draws them, for errors."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step whose episodes are being played."""

    draws: list[Draw]
    playing: "asyncio.Task[list[Episode]]"


class StepScheduler:
    """Draws and plays steps before their turn: at most `pace.level` of them beyond the one that is trained.

    The sampler is paced: the tasks of step s are drawn when the update of step s - level - 1 is over, so no token of it is
    more than `level` versions old when it is trained, and no episode is thrown away for being long. Only a step's first
    round is played ahead: selection, and what it plays once more, have their turn with the step.
    """

    def __init__(
        self, run: StepRun, pace: Pace, progress: StepProgress, state: Mapping[int, Sequence[Mapping[str, Any]]]
    ) -> None:
        self.run, self.pace, self.progress = run, pace, progress
        self.plans: dict[int, InFlight] = {}
        self._groups: set[str] = set()
        """The groups that the present step has drawn."""
        self._again = {
            int(step): [drawn(run.find(values["env"], values["task"]), values) for values in draws]
            for step, draws in state.items()
        }

    async def round(self, step: int, number: int, wanted: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a round of a step and this process's episodes of them.

        The first round was begun ahead; a later one draws fresh tasks for so many groups that are still wanted.
        """
        if number == 0:
            draws, episodes = await self.take(step)
            self._groups = {self.run.group_id(draw, step) for draw in draws}
            return draws, episodes
        draws = await self.run.draw(step, math.ceil(wanted * self.pace.oversample), self._groups)
        return draws, await self.run.collect(draws, step, f"{step}/{number}", self.progress(step, draws))

    async def take(self, step: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a step and this process's episodes of them; later steps begin as far as they may."""
        for number in range(step, min(step + self.pace.level + 1, self.pace.steps)):
            if number not in self.plans:
                self.plans[number] = await self._begun(number)
        plan = self.plans.pop(step)
        episodes = await plan.playing
        if self.pace.level:  # the others wait too, and go on playing what is ahead meanwhile
            await self.run.meet()
        return plan.draws, episodes

    async def _begun(self, step: int) -> InFlight:
        """Draw a step and begin to play it."""
        again = self._again.pop(step, None)
        draws = again or await self.run.draw(step, math.ceil(self.pace.tasks * self.pace.oversample), set())
        for draw in draws if self.pace.level else ():
            _check(draw, self.pace.drawn_by)
        playing = asyncio.ensure_future(self.run.collect(draws, step, f"{step}/0", self.progress(step, draws)))
        playing.add_done_callback(_retrieve_exception)
        return InFlight(draws, playing)

    def state_dict(self) -> dict[int, list[dict[str, Any]]]:
        """Return what is in flight, to be played from the start by a later session: its sampler will not draw it again."""
        known = {**self._again, **{step: plan.draws for step, plan in self.plans.items()}}
        return {step: [draw.plain() for draw in draws] for step, draws in known.items()}


def _retrieve_exception(playing: "asyncio.Task[list[Episode]]") -> None:
    """Take note of a failure: the step's own turn reports it, if the run comes to it."""
    if not playing.cancelled():
        playing.exception()


def _check(draw: Draw, drawn_by: str) -> None:
    """Raise BadConfig for a draw that a checkpoint cannot hold."""
    if draw.start is not None:
        raise BadConfig(
            f"{drawn_by} drew task {draw.task.id!r} with a start, and a checkpoint cannot store the starts of episodes in "
            "flight: leave async_level at 0"
        )
