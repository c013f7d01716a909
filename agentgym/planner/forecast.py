"""Forecast of a run: whether it fits into memory, and how long it takes."""

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
    """Predicted memory and duration of a run."""

    config: TrainConfig
    workload: Workload
    plan: MemoryPlan
    rates: Rates | None
    """Measured times; None if they were not or could not be measured."""

    @cached_property
    def change(self) -> Change | None:
        """Smallest change that makes the run fit, or all changes that save memory if none does; None if the run fits."""
        return None if self.plan.fits else smallest_change(self.config, self.workload, self.plan.memory)

    @property
    def advice(self) -> str:
        """A sentence with the change that makes the run fit, or the memory that it needs; empty if it fits."""
        return "" if self.change is None else advice(self.plan, self.change)

    @property
    def refusal(self) -> str:
        """Reason why the run cannot start; empty unless `MemoryPlan.hopeless` is True."""
        return refusal(self.plan, self.change) if self.plan.hopeless and self.change else ""

    @property
    def seconds(self) -> tuple[Seconds, Seconds] | None:
        """Seconds if episodes resemble the expert's, and if all are as long as possible; None if nothing was timed."""
        if self.rates is None:
            return None
        arguments = (self.config, self.workload.play, self.rates, self.plan.row)
        return likely(*arguments), most(*arguments)


def forecast(config: TrainConfig, memory: Memory | None = None, *, timed: bool = False, lenient: bool = False) -> Forecast:
    """Return a forecast of a run for `memory` (default: this machine's); `timed` also measures the run's speed.

    If no trial episodes can be played, the longest training row is assumed to fill the context or, with `lenient`, to
    have only `turn_tokens` tokens. Raises BadConfig if the model does not exist or cannot be planned.
    """
    workload = read_workload(config)
    if lenient and not workload.play.episodes:
        workload = replace(workload, play=replace(workload.play, longest=config.turn_tokens, first=1))
    memory = memory or available()
    config = with_share(config, workload, memory)
    plan = planned(config, workload, memory)
    return Forecast(config, workload, plan, calibrate(config, workload, plan) if timed else None)
