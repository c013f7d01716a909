"""Build the parts of a run (learner, rollouts, stages) from its configuration."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false, reportPrivateUsage=false

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import distributed

from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.rollout.dealing import Dealer, FixedShare, Progress, TaskQueue
from agentgym.rollout.draw import Draw
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.generation.interface import Generation
from agentgym.trainers.learners import parts
from agentgym.trainers.learners.interface import Learner
from agentgym.trainers.losses import interface as losses
from agentgym.trainers.needs.interface import critic_options, finished
from agentgym.trainers.run.demonstrations import Demonstrations
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.run.stages import Stages
from agentgym.trainers.samplers.interface import GroupOutcome, Sampler
from agentgym.trainers.seam import Stage, parameters

T = TypeVar("T")


@dataclass(slots=True)
class Run:
    """The parts of a training run; a stage gets this object as its parameter `run`."""

    config: TrainConfig
    folder: Path
    accelerator: Accelerator
    learner: Learner
    rollouts: Rollouts
    sampler: Sampler
    rewards: list[Stage]
    selection: Stage
    needs: list[Stage]
    credit: Credit
    loss: Stage
    generation: Generation
    dealer: Dealer = field(init=False)
    """Distributes a step's groups over the processes."""
    replayed: list[Episode] = field(default_factory=list[Episode])
    """Additional episodes that a stage of the current step played; the loop counts and stores them with the others."""
    resources: dict[str, Any] = field(default_factory=dict[str, Any])
    """Objects that stages made for the whole run, by name; they are closed together with the run."""

    def __post_init__(self) -> None:
        self.dealer = _dealer(self.rollouts, self.accelerator)

    @classmethod
    def assemble(
        cls, config: TrainConfig, folder: Path, accelerator: Accelerator, state: dict[str, Any] | None, stages: Stages
    ) -> "Run":
        """Make the parts of a run from its stages; `state`: state of the checkpoint to resume from, or None."""
        model = parts.policy_folder(accelerator, config, folder) if state is None else Path(state["folder"])
        handed: dict[str, object] = {"resumed": state is not None, "top": losses.top_of(stages.loss)}
        for stage in stages.needs:
            if stage.attributes["asks"] == "critic":
                handed["critic"] = critic_options(stage)
        chosen = stages.learner  # `state` is passed here and is not a stage's state
        learner: Learner = chosen.target(accelerator, config, model, state=handed, **chosen.options)
        try:
            rollouts = Rollouts(config, learner.engine, learner.tokenizer, stages)
            sampler: Sampler = stages.sampler(rollouts.sources())
            run = cls(
                config,
                folder,
                accelerator,
                learner,
                rollouts,
                sampler,
                stages.rewards,
                stages.selection,
                stages.needs,
                stages.credit,
                stages.loss,
                Generation(),
            )
            run.credit = replace(stages.credit, run=run)
            run.generation = rollouts.generation = stages.generation(run)
            if state is not None:
                run.load_state_dict(_state_of_rank(state["stages"], accelerator.process_index, accelerator.num_processes))
            return run
        except BaseException:
            learner.close()
            raise

    @property
    def demonstrations(self) -> Demonstrations:
        """Player of expert episodes in the run's environments."""
        return Demonstrations(self.rollouts)

    def resource(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the object of this name, made by `make` at the first call; it is closed with the run."""
        if name not in self.resources:
            self.resources[name] = make()
        return self.resources[name]

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return self.accelerator.process_index

    @property
    def processes(self) -> int:
        """Number of processes of the run."""
        return self.accelerator.num_processes

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, in the order of the processes."""
        return items if self.processes == 1 else gather_object(items)

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this process's part of items that all processes know."""
        return list(items[self.rank :: self.processes])

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread, while the event loop continues, and return the result of `work`."""

        def on_device() -> T:
            if self.accelerator.device.type == "cuda":  # the current device is set per thread
                torch.cuda.set_device(self.accelerator.device)
            return work()

        return await asyncio.to_thread(on_device)

    async def meet(self) -> None:
        """Wait until every process has called this; episodes continue in the meantime."""
        if self.processes > 1:
            await self.in_thread(self.accelerator.wait_for_everyone)

    async def collect(self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None = None) -> list[Episode]:
        """Play this process's share of the draws of a step, which all processes know; `key` is unique in a session."""
        return await self.dealer.collect(draws, step, key, progress)

    def group_id(self, draw: Draw, step: int) -> str:
        """Return the group id of a draw in a step (counted from 0)."""
        return self.rollouts.group_id(draw, f"{step + 1}/")

    def take_replayed(self) -> list[Episode]:
        """Return the additional episodes that stages played since the last call."""
        episodes, self.replayed = self.replayed, []
        return episodes

    def find(self, env: str, task_id: str) -> Task:
        """Return the task with this id in the environment `env`."""
        return self.rollouts.env(env).find(task_id)

    def env_name(self, episode: Episode) -> str:
        """Return the name that the run uses for the episode's environment."""
        return episode.labels.get("env") or next(iter(self.rollouts.envs))

    def task(self, episode: Episode) -> Task:
        """Return the task of an episode, including answers."""
        proposed = self.sampler.task(episode.task_id)
        return self.rollouts.env(self.env_name(episode)).find(episode.task_id) if proposed is None else proposed

    async def draw(self, step: int, number: int, before: set[str]) -> list[Draw]:
        """Return the tasks that the sampler draws; add their group ids to `before`, the group ids of the step so far.

        Raises:
            BadConfig: a task was drawn twice in this step with the same epoch and label.
        """
        sampler: object = self.sampler
        arguments = {"run": self} if "run" in parameters(sampler.draw) else {}
        draws: list[Draw] = [self._with_env(draw) for draw in await finished(sampler.draw(step, number, **arguments))]
        for draw in draws:
            group = self.group_id(draw, step)
            if group in before:
                raise BadConfig(
                    f"sampler {self.config.sampler!r} drew task {draw.task.id!r} of {draw.env} twice in step {step + 1}; "
                    "expected another epoch or label the second time, or its episodes would be the same ones"
                )
            before.add(group)
        return draws

    def _with_env(self, draw: Draw) -> Draw:
        """Return a draw with its environment filled in if there is only one.

        Raises:
            UnknownName: the run has no such environment.
        """
        envs = list(self.rollouts.envs)
        if not draw.env and len(envs) == 1:
            return replace(draw, env=envs[0])
        if draw.env not in envs:
            raise UnknownName(no_such(f"environment of a draw of sampler {self.config.sampler!r}:", draw.env, envs))
        return draw

    def outcomes(self, draws: Sequence[Draw], episodes: Sequence[Episode], step: int) -> list[GroupOutcome]:
        """Return the outcomes of all processes' groups, in the order of the draws; faults and branches do not count."""
        ended: dict[str, list[tuple[float, bool, bool]]] = {}
        whole = [episode for episode in episodes if not episode.fault and not episode.forks]
        for group_id, end in self.gather([(e.group_id, (e.reward, e.success is True, e.hint is not None)) for e in whole]):
            ended.setdefault(group_id, []).append(end)
        groups: list[GroupOutcome] = []
        for draw in draws:
            ends = ended.get(self.group_id(draw, step), [])
            rewards, successes, hinted = zip(*ends, strict=True) if ends else ((), (), ())
            groups.append(GroupOutcome(draw.env, draw.task.id, draw.task.difficulty, rewards, successes, draw.label, hinted))
        return groups

    def generation_metrics(self, episodes: Sequence[Episode], step: int) -> dict[str, float]:
        """Pass a step's episodes to the generation stage and return its numbers, summed over all processes."""
        own = dict(self.generation.update(episodes, step))
        rows = self.gather([own])
        return {name: sum(row[name] for row in rows) for name in own}

    def _stages(self) -> dict[str, Any]:
        named = {f"reward {stage.name}": stage for stage in self.rewards}
        named |= {f"needs {stage.name}": stage for stage in self.needs}
        own = {"sampler": self.sampler, "select": self.selection, "credit": self.credit.stage, "loss": self.loss}
        return {**own, "generation": self.generation, **named}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this process's stages; the checkpoint contains the states of all processes."""
        return {name: stage.state_dict() for name, stage in self._stages().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the stages' state."""
        for name, stage in self._stages().items():
            if name in state or name != "generation":  # old checkpoints lack this stage
                stage.load_state_dict(state[name])

    def close(self) -> None:
        """Close environments, engine and resources."""
        with ExitStack() as closing:
            closing.callback(self.learner.close)
            closing.callback(self.rollouts.close)
            for thing in self.resources.values():
                if hasattr(thing, "close"):
                    closing.callback(thing.close)


def _dealer(rollouts: Rollouts, accelerator: Accelerator) -> Dealer:
    """Return the dealer of a step's groups: even shares, or one queue in the store that joined the processes."""
    config = rollouts.config
    if not config.task_queue or accelerator.num_processes == 1:
        return FixedShare(rollouts.collect, accelerator.process_index, accelerator.num_processes)
    store: Any = distributed.distributed_c10d._get_default_store()
    own = store.clone()  # a separate connection: collectives wait on the other one
    drawn_by = f"sampler {config.sampler!r}"
    places = {"concurrency": config.concurrency, "group_size": config.group_size}
    return TaskQueue(rollouts.collect, own, **places, drawn_by=drawn_by)


def _state_of_rank(states: Sequence[dict[str, Any]], rank: int, processes: int) -> dict[str, Any]:
    """Return the state of the stages of the process `rank`.

    Raises:
        BadConfig: the number of processes has changed, and the processes have different states.
    """
    if len(states) == processes:
        return states[rank]
    if different := [name for name, state in states[0].items() if any(other[name] != state for other in states)]:
        raise BadConfig(
            f"processes is {processes}, and in the checkpoint each of {len(states)} has its own state for "
            f"{', '.join(different)}: continue with --processes {len(states)}"
        )
    return states[0]
