"""The training run: an SFT warm start by imitation, then steps of rollouts, rewards, selection, credit and updates."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import copy
import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list  # pyright: ignore[reportUnknownVariableType]

from agentgym.core.loops import own_loop
from agentgym.episodes.episode import Episode, Group, groups
from agentgym.rollout.collect import runner
from agentgym.rollout.draw import Draw
from agentgym.rollout.overlap import Ahead, Pace
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.data.minibatches import minibatches, training_rows
from agentgym.trainers.data.trees import settled
from agentgym.trainers.learners.interface import Learner, Parts
from agentgym.trainers.learners.step import CannotGoOn
from agentgym.trainers.learners.updates import Measured
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.model import precision
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.rewards import interface as rewards
from agentgym.trainers.run import fits, preflight, sft
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.interrupt import uninterrupted
from agentgym.trainers.run.measure import Measures
from agentgym.trainers.run.metrics import ages, first_fault, step_row
from agentgym.trainers.run.preflight import extended
from agentgym.trainers.run.record import Record
from agentgym.trainers.run.sitting import Show, Sitting, joined
from agentgym.trainers.run.tally import LOST_STEPS, Tally
from agentgym.trainers.samplers.interface import Seen
from agentgym.trainers.seam import Stage


class Learning(Protocol):
    """What a training step asks of a run."""

    @property
    def config(self) -> TrainConfig: ...
    @property
    def learner(self) -> Learner: ...
    @property
    def credit(self) -> Credit: ...
    @property
    def loss(self) -> Stage: ...
    def gathered(self, items: list[Any]) -> list[Any]:
        """Return the items of all processes."""
        ...


def learn(run: Learning, groups: Sequence[Group], step: int) -> dict[str, float]:
    """Update the policy on groups of episodes: credit, rows, mini-batches, updates; return the metrics of all processes.

    Of several processes all must call it, those without groups too.
    """
    config, learner, loss = run.config, run.learner, run.loss
    advantages = run.credit(groups, step=step)  # NumPy: a number per turn, or one per output token
    extra = (*loss.attributes["needs"], *learner.reads)
    training = training_rows(groups, advantages, negative_weight=config.negative_advantage_weight, extra=extra)
    training.compare(learner.before(training.rows, loss))
    measured = Measured(training.gaps, compared=training.before is not None)
    for minibatch in minibatches(training, loss, config, step, gathered=run.gathered, score=learner.score):
        measured.add(learner.update(minibatch, loss, step))  # the only part that differs: local, sharded, on a server
    return measured.over(run.gathered)


def train(config: TrainConfig, show: Show | None = None) -> dict[str, object]:
    """Run a training run in a fresh folder and return its summary; Ctrl-C leaves a checkpoint to resume from."""
    with own_loop():
        return Loop.fresh(config, show).to_the_end()


def resume(
    folder: str | Path,
    show: Show | None = None,
    *,
    steps: int | None = None,
    processes: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Go on with an interrupted run from its newest checkpoint: on a CPU to the last digit as if it had not stopped.

    `steps` asks for more updates than the run was started with: it goes on as a run of so many, whose schedules are
    functions of the step and of their number. Where the learning rate is constant, it is the very run that would have been.
    `processes`: as many take part from now on. `settings`: what says where and how the run goes on, by flag without
    dashes (`{"engine": "vllm", "env.data": PATH}`); the folder may be a stranger's, so they are never read from it.
    """
    with own_loop():
        return Loop.resumed(folder, show, steps=steps, processes=processes, settings=settings).to_the_end()


class Loop(Sitting):
    """One sitting of a run, from its start or from a checkpoint: the SFT warm start, then the steps."""

    command = "train"

    def __init__(self, accelerator: Accelerator, record: Record, state: dict[str, Any] | None, show: Show | None) -> None:
        super().__init__(accelerator, record, show)
        self.config = config = record.config
        counted: dict[str, Any] = {} if state is None else state["tally"]
        self.tally = Tally(**counted)
        self.run = Run.assemble(config, record.folder, accelerator, state)
        self.learner = self.run.learner
        first = math.ceil(config.tasks_per_step * self.run.selection.option("oversample", 1.0))
        pace = Pace(config.async_level, config.steps, first, f"sampler {config.sampler!r}")
        self.ahead = Ahead(self.run, pace, self._counting, {} if state is None else state.get("ahead", {}))
        self.measures = Measures(self.run, record, self.show, {} if state is None else state["results"])
        self.end: tuple[int, int] | None = None if state is None else state["end"]  # of the files before the last measure
        with ExitStack() as unless_whole:
            unless_whole.callback(self.run.close)
            self.loggers = unless_whole.enter_context(
                closing(loggers.start(config, record.folder, accelerator.is_main_process))
            )
            self.run.learner.begin("sft" if self.tally.position < config.sft_steps else "rl", record.folder)
            if state is not None:
                self.run.learner.load_state_dict(state["learner"])
            self._settle()
            self.show("start", self._about())
            unless_whole.pop_all()

    @classmethod
    def fresh(cls, config: TrainConfig, show: Show | None = None) -> "Loop":
        """Begin a run in a fresh folder; see `train`."""
        accelerator = joined(config.processes, "train")
        config = preflight.looked_at(config, fresh=accelerator.is_main_process)  # may fill the folder before others look
        config = replace(config, precision=precision.resolve(config.precision, accelerator.device))
        if accelerator.is_main_process:
            for caution in preflight.cautions(config):
                warnings.warn(caution, stacklevel=2)
            config = fits.check(config)
        if config.engine_kind.gpu_share and accelerator.num_processes > 1:  # the first process planned the engine's share
            config = broadcast_object_list([config])[0]
        record = Record.fresh(config, accelerator.is_main_process)
        try:
            return cls(accelerator, record, None, show)
        except BaseException:
            record.discard()
            raise

    @classmethod
    def resumed(
        cls,
        folder: str | Path,
        show: Show | None = None,
        *,
        steps: int | None = None,
        processes: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> "Loop":
        """Go on from the newest checkpoint of a run; see `resume`."""
        changed: dict[str, Any] = {"steps": steps, "processes": processes, "settings": settings}
        accelerator = joined(extended(folder, **changed).processes, "train")
        record, state = Record.resumed(folder, accelerator.is_main_process, **changed)
        try:
            return cls(accelerator, record, state, show)
        except BaseException:
            record.close()
            raise

    def to_the_end(self) -> dict[str, object]:
        """Run to the end and return the summary."""
        config, tally = self.config, self.tally
        with closing(self.record):
            with closing(self.run), closing(self.loggers), runner() as loop, self.stopping():
                self.await_ = self.measures.await_ = loop.run
                self.await_(self.run.learner.publish(tally.position))
                self.measures.once("success_before")
                while (done := tally.position) < config.sft_steps:
                    self._sft_step()
                    self.updated(due=done + 1 == config.sft_steps or (done + 1) % (20 * config.checkpoint_every) == 0)
                self.measures.once("success_sft")
                while (done := tally.position - config.sft_steps) < config.steps:
                    self._step()
                    self.updated(due=(done + 1) % config.checkpoint_every == 0)
                self.end = self.end if "success_after" in self.measures.results else self.record.offsets()
                self.measures.once("success_after")
            summary = self.measures.summary(tally)
            if best := self.record.best_step():
                summary |= {"best_step": best["step"], "best_success_valid": best["success_valid"]}
            self.show("end", summary)
            return self.ended(summary)

    def _step(self) -> None:
        """Play groups of episodes, pay and select them, credit their turns, update the policy."""
        config, run, tally = self.config, self.run, self.tally
        step, started = tally.position - config.sft_steps, time.perf_counter()
        in_envs = run.rollouts.seconds
        selected, episodes, seen = self.await_(self._groups(step))
        needed = self.await_(needs.compute(selected, run.needs, run, step))
        rolled, in_envs = time.perf_counter(), run.rollouts.seconds - in_envs
        self.show(
            "progress", {"what": f"step {step + 1}, updating on", "done": len(selected), "total": config.tasks_per_step}
        )
        with uninterrupted():
            together = any(run.gathered([bool(selected)]))  # who has no group still takes part
            metrics: dict[str, float] = dict(needed)
            if together and config.async_level:  # later steps are played meanwhile
                metrics |= self.await_(run.in_thread(partial(learn, run, selected, step)))
            elif together:
                self.await_(run.learner.rest())
                metrics |= learn(run, selected, step)
            metrics |= ages(episodes, tally.position) if config.async_level else {}
            tally.position += 1
            self.await_(run.learner.publish(tally.position))
            run.sampler.saw(seen)
            metrics |= run.generated(episodes, step)
            dropped = len(groups(episodes)) - len(selected)
            times = (in_envs, rolled - started, time.perf_counter() - rolled)
            row = step_row(step, selected, episodes, dropped, times, metrics, run)
            tally.count(row)
            tally.note_faults(run.gathered([(any(not e.fault for e in episodes), first_fault(episodes))]))
            self.record.keep(episodes[: config.keep_episodes])
            self._settle()
            row |= self.measures.valid(step)
            row["seconds"] = time.perf_counter() - started
            row["eta_seconds"] = row["seconds"] * (config.steps - step - 1)
            self.log(row)
            self.show("step", row)
            if config.keep_best and "success_valid" in row:
                self._keep_best(step, row["success_valid"])
            tally.seconds += time.perf_counter() - started
        if tally.lost_steps >= LOST_STEPS:
            self.checkpoint()  # with the position behind the steps that were lost: --resume goes on with other tasks
            raise CannotGoOn(
                f"every episode of the last {LOST_STEPS} steps ended in an infrastructure error, the last with: "
                f"{tally.fault}"
            )

    def _keep_best(self, step: int, success: float) -> None:
        """Keep the policy where it is the best so far, which the process that writes knows."""
        if any(self.gathered([self.record.is_best(success)])):
            together = isinstance(self.learner, Parts)
            self.record.keep_best(self.learner.save, step + 1, success, together=together)

    async def _groups(self, step: int) -> tuple[list[Group], list[Episode], list[Seen]]:
        """Return the groups to train on and all episodes of this process, and how the groups of all processes ended."""
        config, run = self.config, self.run
        rounds, factor = run.selection.option("rounds", 1), run.selection.option("oversample", 1.0)
        selected: list[Group] = []
        episodes: list[Episode] = []
        seen: list[Seen] = []
        drawn: set[str] = set()
        for number in range(rounds):
            wanted = config.tasks_per_step - sum(run.gathered([len({group[0].group_id for group in selected})]))
            if wanted <= 0:
                break
            if number == 0:
                draws, fresh = await self.ahead.take(step)
                drawn = {run.rollouts.group_id(draw, f"{step + 1}/") for draw in draws}
            else:
                draws = await run.draw(step, math.ceil(wanted * factor), drawn)
                fresh = await run.collect(draws, step, f"{step}/{number}", self._counting(step, draws))
            await rewards.pay(fresh, run.rewards, step=step, run=run)
            ended = run.seen(draws, fresh, step)
            fresh += run.sampler.completed(ended)
            trainable = [group for group in groups(fresh) if len(group) > 1]
            kept_groups = await needs.finished(run.selection(trainable, step=step, run=run))
            selected += settled(kept_groups, config.shared_turns)
            episodes += [*fresh, *run.played_again]
            run.played_again.clear()
            seen += ended
        return selected, episodes, seen

    def _sft_step(self) -> None:
        """Imitate one batch of fresh demonstrations."""
        config, run, tally, started = self.config, self.run, self.tally, time.perf_counter()
        self.show("progress", {"what": "SFT warm start, update", "done": tally.position + 1, "total": config.sft_steps})
        draws = run.share(run.demonstrations.draws(tally.position))
        episodes = self.await_(run.demonstrations.batch(draws, tally.position))
        with uninterrupted():
            episodes = sft.faultless(episodes, tally, config, run.gathered)
            metrics = run.learner.imitate(episodes, config.sft_lr * sft.schedule(tally.position, config.sft_steps))
            tally.position += 1
            tally.played += sum(run.gathered([len(episodes)]))
            valid = self.measures.valid_sft(tally.position)
            if valid or tally.position % 20 == 0 or tally.position == config.sft_steps:
                row: dict[str, Any] = {"step": tally.position, "phase": "sft", **metrics, **valid}
                row["demonstrations_lost"] = tally.lost
                row["seconds"] = time.perf_counter() - started
                row["eta_seconds"] = tally.seconds / tally.position * (config.sft_steps - tally.position)
                self.log(row)
                self.show("sft", row)
            if tally.position == config.sft_steps:
                run.learner.begin("rl", self.record.folder)
                self.await_(run.learner.publish(tally.position))
            tally.seconds += time.perf_counter() - started

    def _counting(self, step: int, draws: Sequence[Draw]) -> Callable[[Episode], None]:
        """Return what shows how many episodes of this process's share have ended; of a queue's, whose share is not known."""
        numbers, what = itertools.count(1), f"step {step + 1}, episode"
        total = sum(draw.attempts or self.config.group_size for draw in self.run.dealer.share(draws))
        return lambda _: self.show("progress", {"what": what, "done": next(numbers), "total": total})

    def _about(self) -> dict[str, object]:
        config = self.config
        correction = config.tis_cap if config.differs and config.steps else None
        where = {"position": self.tally.position, "sft_steps": config.sft_steps, "steps": config.steps}
        return {**where, **self.run.learner.about(), "correction": correction}

    def _settle(self) -> None:
        """Note the state of the stages as it is between two steps: Ctrl-C may come after the sampler drew for the next."""
        self.settled, self.settled_ahead = copy.deepcopy(self.run.state_dict()), self.ahead.state_dict()

    @property
    def position(self) -> int:
        """Updates so far, those of the SFT warm start included."""
        return self.tally.position

    def state_dict(self) -> dict[str, Any]:
        """Return what a later sitting goes on with; the stages of each process have a state of their own."""
        return {
            "tally": self.tally.state_dict(),
            "end": self.end,
            "results": self.measures.results,
            "stages": self.gathered([self.settled]),
            "ahead": self.settled_ahead,
            "learner": self.run.learner.state_dict(),
        }
