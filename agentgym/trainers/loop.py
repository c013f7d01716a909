"""The training run: an SFT warm start by imitation, then steps of rollouts, rewards, selection, credit and updates."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import copy
import itertools
import math
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from agentgym.episodes.episode import Episode, Group, groups
from agentgym.errors import BadConfig, EngineDead
from agentgym.rollout.collect import runner
from agentgym.trainers import fits, preflight, sft
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.interrupt import uninterrupted
from agentgym.trainers.measure import Measures
from agentgym.trainers.metrics import first_fault, step_row
from agentgym.trainers.model import precision
from agentgym.trainers.preflight import config_of
from agentgym.trainers.record import Record
from agentgym.trainers.run import Run
from agentgym.trainers.stages import loggers, needs, rewards
from agentgym.trainers.stages.sampler import Draw, Seen
from agentgym.trainers.step import CannotGoOn
from agentgym.trainers.tally import LOST_STEPS, Tally

Show = Callable[[str, dict[str, Any]], None]
"""Called with `start`, `progress`, `sft`, `step`, `eval` or `end`, and the numbers to show."""


def train(config: TrainConfig, show: Show | None = None) -> dict[str, Any]:
    """Run a training run in a fresh folder and return its summary; Ctrl-C leaves a checkpoint to resume from."""
    accelerator = _accelerator(config)
    config = preflight.looked_at(config, fresh=accelerator.is_main_process)  # which may fill the folder before others look
    config = replace(config, precision=precision.resolve(config.precision, accelerator.device))
    if accelerator.is_main_process:
        for caution in preflight.cautions(config):
            warnings.warn(caution, stacklevel=2)
        if not config.remote:  # whose memory is the server's
            fits.check(config)
    record = Record.fresh(config, accelerator.is_main_process)
    try:
        loop = Loop(accelerator, record, None, show or _silent)
    except BaseException:
        record.discard()
        raise
    with closing(record):
        return loop.to_the_end()


def resume(folder: str | Path, show: Show | None = None, *, steps: int | None = None) -> dict[str, Any]:
    """Go on with an interrupted run from its newest checkpoint: on a CPU to the last digit as if it had not stopped.

    `steps` asks for more updates than the run was started with: it goes on as a run of so many, whose schedules are
    functions of the step and of their number. Where the learning rate is constant, it is the very run that would have been.
    """
    accelerator = _accelerator(config_of(folder))
    record, state = Record.resumed(folder, accelerator.is_main_process, steps=steps)
    with closing(record):
        return Loop(accelerator, record, state, show or _silent).to_the_end()


def _accelerator(config: TrainConfig) -> Accelerator:
    accelerator = Accelerator(cpu=not torch.cuda.is_available())  # or accelerate would not join processes on a CPU
    if accelerator.num_processes != config.processes:
        raise BadConfig(
            f"processes is {config.processes}, but {accelerator.num_processes} were started: run it with `agentgym train`, "
            f"which starts them, or with `accelerate launch --num_processes {config.processes} -m agentgym train …`"
        )
    return accelerator


class Loop:
    """One sitting of a run, from its start or from a checkpoint: the SFT warm start, then the steps."""

    def __init__(self, accelerator: Accelerator, record: Record, state: dict[str, Any] | None, show: Show) -> None:
        self.record, self.config, config = record, record.config, record.config
        self.show = show if accelerator.is_main_process else _silent
        torch.manual_seed(config.seed)
        counted: dict[str, Any] = {} if state is None else state["tally"]
        self.tally = Tally(**counted)
        self.run = Run.assemble(config, record.folder, accelerator, state)
        self.measures = Measures(self.run, record, self.show, {} if state is None else state["results"])
        self.end: tuple[int, int] | None = None if state is None else state["end"]  # of the files before the last measure
        self.interrupted = False
        try:
            self.loggers = loggers.start(config, record.folder, accelerator.is_main_process)
        except BaseException:
            self.run.close()
            raise
        self.run.learner.begin("sft" if self.tally.position < config.sft_steps else "rl", record.folder)
        if state is not None:
            self.run.learner.load_state_dict(state["learner"])
        self._settle()

    def to_the_end(self) -> dict[str, Any]:
        """Run to the end and return the summary."""
        config, tally = self.config, self.tally
        if self.run.processes > 1:  # processes stop together, at the end of a step
            signal.signal(signal.SIGINT, self._interrupt)
        with closing(self.run), closing(self.loggers), runner() as loop:
            self.await_ = self.measures.await_ = loop.run
            try:
                self.show("start", self._about())
                self.await_(self.run.learner.publish(tally.position))
                self.measures.once("success_before")
                while tally.position < config.sft_steps:
                    self._timed(self._sft_step, every=20 * config.checkpoint_every)
                self.measures.once("success_sft")
                while tally.position < config.sft_steps + config.steps:
                    self._timed(self._step, every=config.checkpoint_every)
                self.end = self.end if "success_after" in self.measures.results else self.record.offsets()
                self.measures.once("success_after")
            except KeyboardInterrupt:
                self._checkpoint()
                raise
            except (CannotGoOn, EngineDead) as error:
                raise (BadConfig if isinstance(error, CannotGoOn) else EngineDead)(
                    f"training stopped at update {tally.position + 1}: {error}. The last good checkpoint is "
                    f"{self.record.newest() or 'none'}; go on with: agentgym train --resume {self.record.folder}"
                ) from error
            self._checkpoint()
        summary = self.measures.summary(tally)
        if best := self.record.best_step():
            summary |= {"best_step": best["step"], "best_success_valid": best["success_valid"]}
        self.record.write("summary.json", summary)
        self.show("end", summary)
        if self.run.processes > 1:  # who leaves while another still listens takes it down
            self.run.accelerator.wait_for_everyone()
            self.run.accelerator.end_training()
        return summary

    def _step(self) -> None:
        """Play groups of episodes, pay and select them, credit their turns, update the policy."""
        config, run, tally = self.config, self.run, self.tally
        step, started = tally.position - config.sft_steps, time.perf_counter()
        in_envs = run.rollouts.seconds
        chosen, episodes, seen = self.await_(self._groups(step))
        needed = self.await_(needs.compute(chosen, run.needs, run, step))
        rolled = time.perf_counter()
        self.show("progress", {"what": f"step {step + 1}, updating on", "done": len(chosen), "total": config.tasks_per_step})
        with uninterrupted():
            together = any(run.gathered([bool(chosen)]))  # who has no group still takes part
            metrics = needed | (run.learner.update(chosen, run.credit, run.loss, step) if together else {})
            tally.position += 1
            self.await_(run.learner.publish(tally.position))
            run.sampler.saw(seen)
            dropped = len(groups(episodes)) - len(chosen)
            times = (run.rollouts.seconds - in_envs, rolled - started, time.perf_counter() - rolled)
            row = step_row(step, chosen, episodes, dropped, times, metrics, run)
            tally.count(row)
            tally.note_faults(run.gathered([(any(not e.fault for e in episodes), first_fault(episodes))]))
            self.record.keep(episodes[: config.keep_episodes])
            self._settle()
            row |= self.measures.valid(step)
            row["seconds"] = time.perf_counter() - started
            row["eta_seconds"] = row["seconds"] * (config.steps - step - 1)
            self._log("step", row)
            if config.keep_best and "success_valid" in row:
                self.record.keep_best(run.learner.save, step + 1, row["success_valid"])
        if tally.lost_steps >= LOST_STEPS:
            self._checkpoint()  # with the position behind the steps that were lost: --resume goes on with other tasks
            raise CannotGoOn(f"every episode of the last {LOST_STEPS} steps ended in a fault, the last with: {tally.fault}")

    async def _groups(self, step: int) -> tuple[list[Group], list[Episode], list[Seen]]:
        """Return the groups to train on and all episodes of this process, and how the groups of all processes ended."""
        config, run = self.config, self.run
        rounds, factor = run.selection.option("rounds", 1), run.selection.option("oversample", 1.0)
        chosen: list[Group] = []
        episodes: list[Episode] = []
        seen: list[Seen] = []
        drawn: set[str] = set()
        for _ in range(rounds):
            wanted = config.tasks_per_step - sum(run.gathered([len({group[0].group_id for group in chosen})]))
            if wanted <= 0:
                break
            draws = await run.draw(step, math.ceil(wanted * factor), drawn)
            fresh = await run.rollouts.collect(run.share(draws), step, self._counting(f"step {step + 1}, episode", draws))
            await rewards.pay(fresh, run.rewards, step=step, run=run)
            trainable = [group for group in groups(fresh) if len(group) > 1]
            chosen += await needs.finished(run.selection(trainable, step=step, run=run))
            episodes += fresh
            seen += run.seen(draws, fresh, step)
        return chosen, episodes, seen

    def _sft_step(self) -> None:
        """Imitate one batch of fresh demonstrations."""
        config, run, tally, started = self.config, self.run, self.tally, time.perf_counter()
        self.show("progress", {"what": "SFT warm start, update", "done": tally.position + 1, "total": config.sft_steps})
        draws = run.share(run.demonstration_draws(tally.position))
        episodes = self.await_(run.rollouts.demonstrate(draws, tally.position))
        with uninterrupted():
            episodes = sft.faultless(episodes, tally, config, run.gathered)
            metrics = run.learner.imitate(episodes, config.sft_lr * sft.schedule(tally.position, config.sft_steps))
            tally.position += 1
            tally.played += sum(run.gathered([len(episodes)]))
            if tally.position % 20 == 0 or tally.position == config.sft_steps:
                row: dict[str, Any] = {"step": tally.position, "phase": "sft", **metrics}
                row["demonstrations_lost"] = tally.lost
                row["seconds"] = time.perf_counter() - started
                row["eta_seconds"] = tally.seconds / tally.position * (config.sft_steps - tally.position)
                self._log("sft", row)
            if tally.position == config.sft_steps:
                run.learner.begin("rl", self.record.folder)
                self.await_(run.learner.publish(tally.position))

    def _timed(self, step: Callable[[], None], every: int) -> None:
        """Take a step, count its time, and write a checkpoint when one is due."""
        started, tally = time.perf_counter(), self.tally
        step()
        tally.seconds += time.perf_counter() - started
        if any(self.run.gathered([self.interrupted])):
            raise KeyboardInterrupt
        sft_steps = self.config.sft_steps
        done = tally.position - (sft_steps if tally.position > sft_steps else 0)
        if done % every == 0 or tally.position == sft_steps:
            self._checkpoint()

    def _log(self, kind: str, row: dict[str, Any]) -> None:
        self.record.log(row)
        self.loggers.log(self.tally.position, row)
        self.show(kind, row)

    def _interrupt(self, *_: Any) -> None:
        self.interrupted = True

    def _counting(self, what: str, draws: list[Draw]) -> Callable[[Episode], None]:
        """Return what shows how many episodes of this process's share have ended."""
        numbers = itertools.count(1)
        total = sum(draw.attempts or self.config.group_size for draw in self.run.share(draws))
        return lambda _: self.show("progress", {"what": what, "done": next(numbers), "total": total})

    def _about(self) -> dict[str, Any]:
        config = self.config
        correction = config.tis_cap if config.differs and config.steps else None
        where = {"position": self.tally.position, "sft_steps": config.sft_steps, "steps": config.steps}
        return {**where, **self.run.learner.about(), "correction": correction}

    def _settle(self) -> None:
        """Note the state of the stages as it is between two steps: Ctrl-C may come after the sampler drew for the next."""
        self.settled = copy.deepcopy(self.run.state_dict())

    def _checkpoint(self) -> None:
        state = {
            "tally": self.tally.state_dict(),
            "end": self.end,
            "results": self.measures.results,
            "stages": self.settled,
            "learner": self.run.learner.state_dict(),
        }
        self.record.checkpoint(self.run.learner.save, self.tally.position, state)


def _silent(kind: str, numbers: dict[str, Any]) -> None:
    del kind, numbers
