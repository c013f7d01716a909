"""A session of a training run from start to end, around the steps in `trainers/loop.py`."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import copy
import itertools
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Self

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list  # pyright: ignore[reportUnknownVariableType]

from agentgym.core.garbage import libraries_frozen
from agentgym.episodes.episode import Episode, Group
from agentgym.rollout.collect import runner
from agentgym.rollout.draw import Draw
from agentgym.rollout.loop_runner import result_of
from agentgym.rollout.overlap import Pace, StepScheduler
from agentgym.trainers.config import checks
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.learners.interface import PartitionedLearner
from agentgym.trainers.learners.step import CannotContinue
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.losses import interface as losses
from agentgym.trainers.model import precision
from agentgym.trainers.run import fits, preflight, sft
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.interrupt import uninterrupted
from agentgym.trainers.run.measure import Measures
from agentgym.trainers.run.metrics import Clock, first_fault, step_row
from agentgym.trainers.run.record import Record
from agentgym.trainers.run.session import RunSession, Show, join_processes
from agentgym.trainers.run.stages import FreshRun, Stages
from agentgym.trainers.run.tally import LOST_STEPS, Tally


class Training(RunSession):
    """One session of a training run, from its start or from a checkpoint: the SFT warm start, then the steps."""

    command = "train"
    wait: Callable[[Coroutine[Any, Any, Any]], Any]
    """Runs a coroutine to completion and returns its result, on one event loop for the whole session (`run_to_end`)."""

    def __init__(
        self, accelerator: Accelerator, record: Record, state: dict[str, Any] | None, show: Show | None, stages: Stages
    ) -> None:
        super().__init__(accelerator, record, show)
        self.config = config = record.config
        counted: dict[str, Any] = {} if state is None else state["tally"]
        self.tally = Tally(**counted)
        self.run = Run.assemble(config, record.folder, accelerator, state, stages)
        self.learner = self.run.learner
        oversample: float = self.run.selection.option("oversample", 1.0)
        pace = Pace(config.async_level, config.steps, config.tasks_per_step, oversample, f"sampler {config.sampler!r}")
        self.scheduler = StepScheduler(self.run, pace, self._step_progress, {} if state is None else state.get("ahead", {}))
        self.measures = Measures(self.run, record, self.show, {} if state is None else state["results"])
        self.end: tuple[int, int] | None = None if state is None else state["end"]  # file lengths before the last evaluation
        with ExitStack() as on_error:
            on_error.callback(self.run.close)
            self.loggers = on_error.enter_context(
                closing(loggers.start(stages.loggers, config, record.folder, accelerator.is_main_process))
            )
            sources = self.run.rollouts.sources()
            record.note_pools({source.name: pool for source in sources if (pool := source.pool())})
            record.note_wordings({source.name: names for source in sources if (names := source.wordings())})
            self.run.learner.begin("sft" if self.tally.position < config.sft_steps else "rl", record.folder)
            if state is not None:
                self.run.learner.load_state_dict(state["learner"])
            self._settle()
            self.show("start", self._about())
            on_error.pop_all()

    @classmethod
    def fresh(cls, run: FreshRun, show: Show | None = None) -> Self:
        """Start a run, checked by `preflight.check_run`, in a fresh folder."""
        accelerator = join_processes(run.config.processes, "train")
        config = run.config.with_found(precision=precision.resolve(run.config.precision, accelerator.device))
        checks.check_precision(config)
        if accelerator.is_main_process:
            for caution in preflight.cautions(config, run.stages):
                warnings.warn(caution, stacklevel=2)
            config = fits.check(config)
        if config.engine_kind.gpu_share and accelerator.num_processes > 1:  # the first process planned the engine's share
            config = broadcast_object_list([config])[0]
        record = Record.fresh(config, accelerator.is_main_process)
        try:
            return cls(accelerator, record, None, show, run.stages)
        except BaseException:
            record.discard()
            raise

    @classmethod
    def resumed(
        cls,
        folder: str | Path,
        config: TrainConfig,
        show: Show | None = None,
    ) -> Self:
        """Resume a run from its newest checkpoint; `config` comes from `preflight.extended`."""
        accelerator = join_processes(config.processes, "train")
        record, state = Record.resumed(folder, config, accelerator.is_main_process)
        try:
            stages = Stages(config)
            losses.check(FreshRun(config, stages))  # the caller may have given another engine
            return cls(accelerator, record, state, show, stages)
        except BaseException:
            record.close()
            raise

    def run_to_end(self) -> dict[str, object]:
        """Take all remaining updates and return the summary."""
        config, tally = self.config, self.tally
        with closing(self.record), libraries_frozen():
            with closing(self.run), closing(self.loggers), runner() as loop, self.stopping():
                self.wait = self.measures.wait = partial(result_of, loop)
                self.wait(self.run.learner.publish(tally.position))
                self.measures.once("success_before", config.untrained_tasks)
                while (done := tally.position) < config.sft_steps:
                    self._sft_step()
                    self.updated(due=done + 1 == config.sft_steps or (done + 1) % (20 * config.checkpoint_every) == 0)
                if config.sft_steps:  # else the policy was measured already
                    self.measures.once("success_sft", config.test_tasks)
                while (done := tally.position - config.sft_steps) < config.steps:
                    self.step(done)
                    self._check_faults()
                    self.updated(due=(done + 1) % config.checkpoint_every == 0)
                self.end = self.end if "success_after" in self.measures.results else self.record.offsets()
                self.measures.once("success_after", config.test_tasks)
            summary = self.measures.summary(tally)
            if best := self.record.best_step():
                summary |= {"best_step": best["step"], "best_success_valid": best["success_valid"]}
            self.show("end", summary)
            return self.ended(summary)

    @abstractmethod
    def step(self, step: int) -> None:
        """Take a training step (counted from 0); it must end with a call of `step_ended`."""

    def step_ended(
        self, step: int, selected: list[Group], episodes: list[Episode], metrics: dict[str, float], clock: Clock
    ) -> None:
        """Count, evaluate, log and show a step after its update."""
        config, run, tally = self.config, self.run, self.tally
        row = step_row(step, selected, episodes, clock, metrics, run)
        tally.count(row)
        tally.note_faults(run.gather([(any(not e.fault for e in episodes), first_fault(episodes))]))
        self.record.keep(episodes[: config.keep_episodes])
        self._settle()
        row |= self.measures.valid(step)
        row["seconds"] = time.perf_counter() - clock.started
        row["eta_seconds"] = row["seconds"] * (config.steps - step - 1)
        self.log(row)
        self.show("step", row)
        if config.keep_best and "success_valid" in row:
            self._keep_best(step, row["success_valid"])
        tally.seconds += time.perf_counter() - clock.started

    def _check_faults(self) -> None:
        """Check that the last `LOST_STEPS` steps had a faultless episode; if they had none, write a checkpoint and raise.

        Raises:
            CannotContinue: every episode was a fault.
        """
        if self.tally.lost_steps >= LOST_STEPS:
            self.checkpoint()  # its position is after the lost steps: --resume continues with other tasks
            raise CannotContinue(
                f"every episode of the last {LOST_STEPS} steps ended in an infrastructure error, the last with: "
                f"{self.tally.fault}"
            )

    def _keep_best(self, step: int, success: float) -> None:
        """Save the policy as the best checkpoint if its validation success is the highest so far."""
        if any(self.gather([self.record.is_best(success)])):
            together = isinstance(self.learner, PartitionedLearner)
            self.record.keep_best(self.learner.save, step + 1, success, together=together)

    def _sft_step(self) -> None:
        """Take one update of the SFT warm start on new demonstrations; after the last, begin reinforcement learning."""
        config, run, tally, started = self.config, self.run, self.tally, time.perf_counter()
        self.progress("SFT warm start, update", tally.position + 1, config.sft_steps)
        draws = run.share(run.demonstrations.draws(tally.position))
        episodes = self.wait(run.demonstrations.batch(draws, tally.position))
        with uninterrupted():
            episodes = sft.faultless(episodes, tally, config, run.gather)
            lr = config.sft_lr * sft.schedule(tally.position, config.sft_steps)
            metrics = run.learner.imitate(episodes, lr)
            tally.position += 1
            tally.played += sum(run.gather([len(episodes)]))
            valid = self.measures.valid_sft(tally.position)
            if valid or tally.position % 20 == 0 or tally.position == config.sft_steps:
                row: dict[str, Any] = {"step": tally.position, "phase": "sft", **metrics, "lr": lr, **valid}
                row["demonstrations_lost"] = tally.lost
                row["seconds"] = time.perf_counter() - started
                row["eta_seconds"] = tally.seconds / tally.position * (config.sft_steps - tally.position)
                self.log(row)
                self.show("sft", row)
            if tally.position == config.sft_steps:
                run.learner.begin("rl", self.record.folder)
                self.wait(run.learner.publish(tally.position))
            tally.seconds += time.perf_counter() - started

    def _step_progress(self, step: int, draws: Sequence[Draw]) -> Callable[[Episode], None]:
        """Return the progress callback of a step; with a task queue, the total counts the episodes of all processes."""
        numbers, what = itertools.count(1), f"step {step + 1}, episode"
        total = sum(draw.attempts or self.config.group_size for draw in self.run.dealer.share(draws))
        return lambda _: self.progress(what, next(numbers), total)

    def progress(self, what: str, done: int, total: int) -> None:
        """Show progress: `done` of `total` in the activity `what`."""
        self.show("progress", {"what": what, "done": done, "total": total})

    def _about(self) -> dict[str, object]:
        config = self.config
        correction = config.tis_cap if config.differs and config.steps else None
        where = {"position": self.tally.position, "sft_steps": config.sft_steps, "steps": config.steps}
        return {**where, **self.run.learner.about(), "correction": correction}

    def _settle(self) -> None:
        """Copy the stages' state for the next checkpoint: Ctrl-C may come after the sampler has drawn the next step."""
        self.settled, self.settled_scheduler = copy.deepcopy(self.run.state_dict()), self.scheduler.state_dict()

    @property
    def position(self) -> int:
        """Number of SFT updates and training steps so far."""
        return self.tally.position

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, including the stages of every process."""
        return {
            "tally": self.tally.state_dict(),
            "end": self.end,
            "results": self.measures.results,
            "stages": self.gather([self.settled]),
            "ahead": self.settled_scheduler,
            "learner": self.run.learner.state_dict(),
        }
