"""Groups of episodes: the draws of a step become jobs, which a pool plays, with branches if requested."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from agentgym.core.seeding import derive
from agentgym.core.tasks import Task
from agentgym.episodes.episode import STARTED, Episode
from agentgym.errors import BadConfig
from agentgym.rollout.branched import Branching, BranchingPlayer
from agentgym.rollout.collect import group_of
from agentgym.rollout.draw import Draw, check_sampling
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutPool
from agentgym.rollout.together import together

Progress = Callable[[Episode], None]


class GroupSettings(Protocol):
    """Settings of a run that apply to its groups of episodes."""

    @property
    def seed(self) -> int:
        """Root seed of the run."""
        ...

    @property
    def group_size(self) -> int:
        """Number of episodes for a draw that does not set one."""
        ...

    @property
    def concurrency(self) -> int:
        """Maximum number of episodes in flight."""
        ...

    @property
    def temperature(self) -> float:
        """Sampling temperature of training."""
        ...

    @property
    def test_temperature(self) -> float:
        """Sampling temperature of evaluations."""
        ...


class Generation(Protocol):
    """A method to play the jobs of a training step."""

    async def play(
        self,
        agents: Mapping[str, Any],
        jobs: Sequence[Job],
        play: Callable[[Mapping[str, Any], Sequence[Job]], Awaitable[list[Episode]]],
        step: int,
    ) -> list[Episode]:
        """Return the jobs' episodes; `play` is the default method, for use on any part of the jobs."""
        ...


@runtime_checkable
class ExternalAgent(Protocol):
    """An agent that plays whole episodes by itself, in its own environment."""

    async def collect(
        self,
        env: str,
        *,
        tasks: Sequence[Task],
        attempts: int = 1,
        seed: int = 0,
        concurrency: int = 64,
        group_prefix: str = "",
        repeats: Sequence[int] = (),
    ) -> list[Episode]:
        """Play `attempts` episodes of every task and return them in order.

        `group_prefix` and `repeats` are `prefix` and `repeats` of `jobs_of`.
        """
        ...


class Groups(ABC):
    """Plays draws in a pool that lives as long as this object. Subclasses implement `agents` and `horizon`.

    `ids` maps the run's name of each environment to its full id.
    """

    generation: Generation | None = None
    """Method to play the episodes of training steps; None to play them independently."""

    def __init__(
        self, settings: GroupSettings, pool: RolloutPool, ids: Mapping[str, str], branching: Branching | None = None
    ) -> None:
        self.settings, self.pool, self.ids = settings, pool, ids
        self.grower = BranchingPlayer(self, branching) if branching else None
        """Plays groups with branches; None if the run has no branching."""

    @abstractmethod
    def agents(self, temperature: float) -> Mapping[str, Any]:
        """Return the agent for each environment, by name, with this sampling temperature."""

    @abstractmethod
    def horizon(self, env: str, step: int) -> int | None:
        """Return the maximum turns per episode in a training step; None for the environment's default."""

    @property
    def seed(self) -> int:
        """Root seed of the run."""
        return self.settings.seed

    @property
    def seconds(self) -> float:
        """Seconds spent so far in environments of this process."""
        return self.pool.seconds

    async def collect(self, draws: Sequence[Draw], step: int, progress: Progress | None = None) -> list[Episode]:
        """Play a group of episodes for every draw of a training step (from 0). If steps overlap, earlier ones go first."""
        seed, agents = derive("train", self.settings.seed, step), self.agents(self.settings.temperature)
        if self.grower is None:
            return await self._played(agents, draws, seed, f"{step + 1}/", progress, step)
        grown = await together(
            self.grower.grow(agents, self.jobs(draw, seed, f"{step + 1}/", step), step, progress) for draw in draws
        )
        return [episode for group in grown for episode in group]

    async def evaluate(self, draws: Sequence[Draw], prefix: str, progress: Progress | None = None) -> list[Episode]:
        """Play one episode of every draw; `prefix` begins every group id.

        Raises:
            BadConfig: a draw has a hint.
        """
        seed = derive("evaluate", self.settings.seed)
        if any(draw.hint for draw in draws):
            raise BadConfig("an evaluation is asked to play with hints; expected none: hints are for training alone")
        draws = [replace(draw, attempts=1) for draw in draws]
        return await self._played(self.agents(self.settings.test_temperature), draws, seed, prefix, progress)

    async def _played(
        self,
        agents: Mapping[str, Any],
        draws: Sequence[Draw],
        seed: int,
        prefix: str,
        progress: Progress | None,
        step: int | None = None,
    ) -> list[Episode]:
        """Play every draw. In a training step (`step` is not None), the horizon follows the run's schedule."""
        agent, rank = next(iter(agents.values())), -1 if step is None else step
        if isinstance(agent, ExternalAgent):
            return await self._play_external(agent, draws, seed, prefix)
        jobs = [job for draw in draws for job in self.jobs(draw, seed, prefix, step)]
        if step is None or self.generation is None:
            episodes = await self.play(agents, jobs, progress, rank)
        else:
            episodes = await self.generation.play(agents, jobs, partial(self.play, progress=progress, rank=rank), step)
        begun = {self.group_id(draw, prefix) for draw in draws if draw.start is not None}
        for episode in episodes:
            if episode.group_id in begun:
                episode.labels[STARTED] = "demonstration"
        return episodes

    async def _play_external(self, agent: ExternalAgent, draws: Sequence[Draw], seed: int, prefix: str) -> list[Episode]:
        """Play the draws with an external agent, in the agent's own environment.

        Raises:
            BadConfig: a draw has a setting that such agents do not support.
        """
        for draw in draws:
            for name in ("start", "horizon", "sampling", "label", "hint"):
                if getattr(draw, name):
                    raise BadConfig(
                        f"a draw of task {draw.task.id!r} has {name}, and the run's agent brings its own "
                        "environment: use a task sampler without it"
                    )
        episodes: list[Episode] = []
        for attempts in dict.fromkeys(draw.attempts or self.settings.group_size for draw in draws):
            alike = [draw for draw in draws if (draw.attempts or self.settings.group_size) == attempts]
            episodes += await agent.collect(
                next(iter(self.ids.values())),
                tasks=[draw.task for draw in alike],
                repeats=[draw.epoch for draw in alike],
                attempts=attempts,
                seed=seed,
                concurrency=self.settings.concurrency,
                group_prefix=prefix,
            )
        return episodes

    async def play(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], progress: Progress | None = None, rank: int = -1
    ) -> list[Episode]:
        """Play jobs and record in each episode which environment it is from."""
        episodes = await self.pool.collect(agents, jobs, progress=progress, rank=rank)
        for job, episode in zip(jobs, episodes, strict=True):
            episode.env = self.ids[job.env]
            if len(self.ids) > 1:
                episode.labels["env"] = job.env
        return episodes

    def jobs(self, draw: Draw, seed: int, prefix: str, step: int | None = None) -> list[Job]:
        """Return the jobs of a draw. In a training step (`step` is not None), the horizon follows the run's schedule."""
        seed = derive("again", seed, draw.epoch) if draw.epoch else seed
        seed = derive("label", seed, draw.label) if draw.label else seed
        group = self.group_id(draw, prefix)
        horizon = draw.horizon
        if horizon is None and step is not None:
            horizon = self.horizon(draw.env, step)
        if step is not None:
            check_sampling(draw)
        attempts = draw.attempts or self.settings.group_size
        plain = 0 if draw.hinted is None else attempts - draw.hinted
        return [
            Job(draw.task, n, seed, group, draw.env, horizon, draw.start, draw.sampling, draw.hint if n >= plain else None)
            for n in range(attempts)
        ]

    def group_id(self, draw: Draw, prefix: str) -> str:
        """Return the group id of a draw."""
        return group_of(f"{prefix}{draw.env}/" if len(self.ids) > 1 else prefix, draw.task, draw.epoch) + draw.label

    def close(self) -> None:
        """Close all environments."""
        self.pool.close()
