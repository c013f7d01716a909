"""One training step on one screen: play, reward, select, needs, credit, rows, updates, publish, log; `train`, `resume`.

`run` has the stages of the configuration, resolved once (`run/assemble.py`). All processes take the same steps, each
with its share of the groups; `run.gather` returns the items of all processes. `self.wait` runs a coroutine to
completion on the event loop, where episodes of later steps may continue in the meantime.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agentgym.core.loops import own_loop
from agentgym.episodes.episode import Episode, Group, groups
from agentgym.rollout.overlap import StepScheduler
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.data.minibatches import minibatches, training_rows
from agentgym.trainers.data.trees import weigh_shared_turns
from agentgym.trainers.learners.interface import Learner
from agentgym.trainers.learners.updates import UpdateMetrics
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.rewards import interface as rewards
from agentgym.trainers.run import preflight
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.interrupt import uninterrupted
from agentgym.trainers.run.launch import main_process
from agentgym.trainers.run.metrics import Clock, staleness
from agentgym.trainers.run.session import Show
from agentgym.trainers.run.training import Training
from agentgym.trainers.samplers.interface import GroupOutcome
from agentgym.trainers.seam import Stage


class Loop(Training):
    """A training run that takes the step of this module."""

    def step(self, step: int) -> None:
        """Take one step (counted from 0): play and choose groups, compute what they need, update, publish, log."""
        run, clock = self.run, Clock(self.run.rollouts)
        selected, episodes, outcomes = self.wait(play(run, self.scheduler, step))
        metrics = self.wait(needs.compute(selected, run.needs, run, step))
        clock.rollout_ends()
        self.progress(f"step {step + 1}, updating on", len(selected), self.config.tasks_per_step)
        with uninterrupted():  # Ctrl-C waits: a step is counted as a whole or not at all
            if any(run.gather([bool(selected)])):  # of several processes, one without groups still takes part
                if self.config.async_level:  # later steps are being played
                    metrics |= self.wait(run.in_thread(partial(learn, run, selected, step)))
                else:
                    self.wait(run.learner.release_engine_memory())
                    metrics |= learn(run, selected, step)
            metrics |= staleness(episodes, self.position) if self.config.async_level else {}
            self.tally.position += 1
            self.wait(run.learner.publish(self.position))  # the engine samples from the new weights
            run.sampler.update(outcomes)
            metrics |= run.generation_metrics(episodes, step)
            self.step_ended(step, selected, episodes, metrics, clock)


async def play(run: Run, scheduler: StepScheduler, step: int) -> tuple[list[Group], list[Episode], list[GroupOutcome]]:
    """Play a step; return this process's groups to train on and all its episodes, and all processes' outcomes."""
    selected: list[Group] = []
    episodes: list[Episode] = []
    outcomes: list[GroupOutcome] = []
    for number in range(run.selection.option("rounds", 1)):  # later rounds play fresh tasks for groups left out
        missing = run.config.tasks_per_step - sum(run.gather([len({group[0].group_id for group in selected})]))
        if missing <= 0:
            break
        draws, played = await scheduler.round(step, number, missing)
        await rewards.pay(played, run.rewards, step=step, run=run)
        round_outcomes = run.outcomes(draws, played, step)
        played += run.sampler.completed(round_outcomes)
        trainable = [group for group in groups(played) if len(group) > 1]  # without infrastructure errors
        selected += weigh_shared_turns(
            await needs.finished(run.selection(trainable, step=step, run=run)), run.config.shared_turns
        )
        episodes += [*played, *run.take_replayed()]
        outcomes += round_outcomes
    return selected, episodes, outcomes


def learn(run: "Learning", groups: Sequence[Group], step: int) -> dict[str, float]:
    """Update the policy on groups (credit, rows, mini-batches, updates) and return the metrics of all processes.

    Every process must call it, even without groups.
    """
    config, learner, loss = run.config, run.learner, run.loss
    advantages = run.credit(groups, step=step)  # NumPy: a number per turn, or one per output token
    extra = (*loss.attributes["needs"], *learner.reads)
    training = training_rows(groups, advantages, negative_weight=config.negative_advantage_weight, extra=extra)
    training.set_old_logprobs(learner.old_logprobs(training.rows, loss))
    measured = UpdateMetrics(training.gaps, compared=training.old_logprobs is not None)
    for minibatch in minibatches(training, loss, config, step, gather=run.gather, score=learner.score):
        measured.add(learner.update(minibatch, loss, step))  # the only part that differs: local, sharded, on a server
    return measured.reduce(run.gather)


class Learning(Protocol):
    """The parts of a run that an update uses."""

    @property
    def config(self) -> TrainConfig: ...
    @property
    def learner(self) -> Learner: ...
    @property
    def credit(self) -> Credit: ...
    @property
    def loss(self) -> Stage: ...
    def gather(self, items: list[Any]) -> list[Any]:
        """Return the items of all processes."""
        ...


def train(config: TrainConfig, show: Show | None = None) -> dict[str, object]:
    """Train in a fresh folder and return the run's summary; Ctrl-C leaves a checkpoint to resume from."""
    with own_loop():
        return Loop.fresh(preflight.check_run(config, fresh=main_process()), show).run_to_end()


def resume(
    folder: str | Path,
    show: Show | None = None,
    *,
    steps: int | None = None,
    processes: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Resume a run from its newest checkpoint; on a CPU the result is identical to that of an uninterrupted run.

    `steps`: a new, larger number of steps. The learning rate may depend on this number, so the result equals that of a
    run that started with it only if the rate is constant. `processes`: a new number of processes. `settings`
    say where and how the run continues, by flag without dashes (`{"engine": "vllm", "env.data": PATH}`); they are never
    read from the folder, because a stranger may have written it.
    """
    with own_loop():
        return Loop.resumed(folder, preflight.extended(folder, steps, processes, settings), show).run_to_end()
