"""Overlap: the episodes of later steps are played while the learner is at an earlier one, never too far ahead of it."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch
from accelerate import Accelerator

from agentgym.core.hints import Hint
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.samplers.interface import Draw

T = TypeVar("T")
Counting = Callable[[int, Sequence[Draw]], Callable[[Episode], None]]
"""Of a step and its draws, what shows how many of their episodes have ended."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A step whose episodes are being played."""

    draws: list[Draw]
    playing: "asyncio.Task[list[Episode]]"


class Ahead:
    """Draws and plays steps before their turn: at most `async_level` of them beyond the one that is trained.

    The sampler is paced: the tasks of step s are drawn when the update of step s - level - 1 is over, so no token of it is
    more than `level` versions old when it is trained, and no episode is thrown away for being long. Only a step's first
    round is played ahead: selection, and what it plays once more, have their turn with the step.
    """

    def __init__(self, run: Run, counting: Counting, state: Mapping[int, Sequence[Mapping[str, object]]]) -> None:
        self.run, self.counting = run, counting
        self.plans: dict[int, Plan] = {}
        self._again = {int(step): [_drawn(run, values) for values in draws] for step, draws in state.items()}

    async def take(self, step: int) -> tuple[list[Draw], list[Episode]]:
        """Return the draws of a step and this process's episodes of them; later steps begin as far as they may."""
        config, run = self.run.config, self.run
        for number in range(step, min(step + config.async_level + 1, config.steps)):
            if number not in self.plans:
                self.plans[number] = await self._begun(number)
        plan = self.plans.pop(step)
        episodes = await plan.playing
        if config.async_level and run.processes > 1:  # the others wait too, and go on playing what is ahead meanwhile
            await in_thread(run.accelerator, run.accelerator.wait_for_everyone)
        return plan.draws, episodes

    async def _begun(self, step: int) -> Plan:
        """Draw a step and begin to play it."""
        run = self.run
        number = math.ceil(run.config.tasks_per_step * run.selection.option("oversample", 1.0))
        draws = self._again.pop(step, None) or await run.draw(step, number, set())
        for draw in draws if run.config.async_level else ():
            _check(draw, run.config.sampler)
        playing = asyncio.ensure_future(run.collect(draws, step, f"{step}/0", self.counting(step, draws)))
        playing.add_done_callback(_looked_at)
        return Plan(draws, playing)

    def state_dict(self) -> dict[int, list[dict[str, Any]]]:
        """Return what is in flight, to be played from the start by a later sitting: its sampler will not draw it again."""
        known = {**self._again, **{step: plan.draws for step, plan in self.plans.items()}}
        return {step: [_plain(draw) for draw in draws] for step, draws in known.items()}


async def in_thread(accelerator: Accelerator, work: Callable[[], T]) -> T:
    """Return what some work returns; the event loop goes on beside it."""

    def run() -> T:
        if accelerator.device.type == "cuda":  # which device is current is a thread's own affair
            torch.cuda.set_device(accelerator.device)
        return work()

    return await asyncio.to_thread(run)


def _looked_at(playing: "asyncio.Task[list[Episode]]") -> None:
    """Take note of a failure: the step's own turn reports it, if the run comes to it."""
    if not playing.cancelled():
        playing.exception()


def _check(draw: Draw, sampler: str) -> None:
    """Raise BadConfig for a draw that a checkpoint cannot hold."""
    if draw.start is not None:
        raise BadConfig(
            f"sampler {sampler!r} drew task {draw.task.id!r} with a start, and a checkpoint cannot store the starts of "
            "episodes in flight: leave async_level at 0"
        )


def _plain(draw: Draw) -> dict[str, object]:
    return {
        "env": draw.env,
        "task": draw.task.id,
        "epoch": draw.epoch,
        "attempts": draw.attempts,
        "horizon": draw.horizon,
        "sampling": dict(draw.sampling),
        "label": draw.label,
        "hint": None if draw.hint is None else asdict(draw.hint),
        "hinted": draw.hinted,
    }


def _drawn(run: Run, values: Mapping[str, Any]) -> Draw:
    others = {name: value for name, value in values.items() if name not in ("task", "hint")}
    hint = values.get("hint")
    others["hint"] = None if hint is None else Hint(**hint)
    return Draw(run.rollouts.env(values["env"]).find(values["task"]), **others)
