"""Forecast before a run starts: whether it fits a device, and how long it takes."""

from dataclasses import dataclass, replace
from functools import cached_property

from agentgym.planner.calibration import calibrate
from agentgym.planner.duration import Rates, Seconds, likely, most
from agentgym.planner.fitting import Change, advice, refusal, smallest_change
from agentgym.planner.plan import MemoryPlan, Workload, read_workload, with_share
from agentgym.planner.plan import plan as planned
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import Memory, available


@dataclass(frozen=True)
class Forecast:
    """Cost of a run."""

    config: TrainConfig
    workload: Workload
    plan: MemoryPlan
    rates: Rates | None
    """Measured times; None if nothing was or could be measured."""

    @cached_property
    def change(self) -> Change | None:
        """Smallest change that makes the run fit; None if it fits."""
        return None if self.plan.fits else smallest_change(self.config, self.workload, self.plan.memory)

    @property
    def advice(self) -> str:
        """Change that makes it fit, or the memory it would take, in one sentence; empty if it fits."""
        return "" if self.change is None else advice(self.plan, self.change)

    @property
    def refusal(self) -> str:
        """Reason why the run cannot start; empty unless its need clearly exceeds the available memory."""
        return refusal(self.plan, self.change) if self.plan.hopeless and self.change else ""

    @property
    def seconds(self) -> tuple[Seconds, Seconds] | None:
        """Seconds of an update with the expert's episodes and with the longest ones; None if nothing was timed."""
        if self.rates is None:
            return None
        arguments = (self.config, self.workload.play, self.rates, self.plan.row)
        return likely(*arguments), most(*arguments)


def forecast(config: TrainConfig, memory: Memory | None = None, *, timed: bool = False, lenient: bool = False) -> Forecast:
    """Return the memory that a run needs on this machine or in the given memory; with `timed`, also its duration,
    measured for some seconds.

    `lenient`: if no episode can be played beforehand, rows have their minimum length instead of their maximum. Raises
    BadConfig for a model that does not exist or cannot be planned.
    """
    workload = read_workload(config)
    if lenient and not workload.play.episodes:
        workload = replace(workload, play=replace(workload.play, longest=config.turn_tokens, first=1))
    memory = memory or available()
    config = with_share(config, workload, memory)
    plan = planned(config, workload, memory)
    return Forecast(config, workload, plan, calibrate(config, workload, plan) if timed else None)
