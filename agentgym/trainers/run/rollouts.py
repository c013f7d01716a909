"""The rollouts of a training run: its environments, its agents, and the groups that they play."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, cast

from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive
from agentgym.engines import Sampling
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.registry import Maker, full_id, load, make
from agentgym.rollout.collect import group_of
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutPool
from agentgym.trainers.branching.interface import resolve_branching
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, settings_in
from agentgym.trainers.generation.interface import Generation
from agentgym.trainers.run.branched import Grower, together
from agentgym.trainers.run.gateway_agent import GatewayAgent, Play
from agentgym.trainers.samplers.interface import Draw, TaskSource, first_tasks

Progress = Callable[[Episode], None]


class Rollouts:
    """Plays what a task sampler draws. Environments, worker processes and browsers live as long as this does."""

    def __init__(self, config: TrainConfig, engine: Any, tokenizer: object) -> None:
        self.config, self.engine, self.tokenizer = config, engine, tokenizer
        self.envs: dict[str, EnvSpec] = {env.name: env for env in config.mix}
        self.pool = RolloutPool({name: Maker(env.id, env.options) for name, env in self.envs.items()}, config)
        stage = resolve_branching(config)
        self.grower = Grower(self, stage) if stage else None
        """What plays groups whose episodes branch off from one another, where they do."""
        self._ids = {name: full_id(env.id) for name, env in self.envs.items()}
        self._agents: dict[float, dict[str, object]] = {}
        self._askable: dict[str, TextEnv] = {}
        self.generation = Generation()
        """How the episodes of training steps are played."""

    @property
    def seconds(self) -> float:
        """Seconds spent in environments of this process."""
        return self.pool.seconds

    def sources(self) -> list[TaskSource]:
        """Return where the training tasks of each environment come from."""
        seed = self.config.seed
        return [
            TaskSource(self.env(name), seed, env.train_split or "train", name, env.weight) for name, env in self.envs.items()
        ]

    def env(self, name: str) -> TextEnv:
        """Return an environment that nobody plays in, to ask for tasks."""
        if name not in self._askable:
            self._askable[name] = make(self.envs[name].id, **self.envs[name].options)
        return self._askable[name]

    def agents(self, temperature: float) -> Mapping[str, Any]:
        """Return the agent of each environment, sampling at a temperature."""
        if temperature not in self._agents:
            self._agents[temperature] = {name: self._agent(env, temperature) for name, env in self.envs.items()}
        return self._agents[temperature]

    def _agent(self, env: EnvSpec, temperature: float) -> object:
        config = settings_in(self.config, env)
        if config.agent not in AGENTS:  # MODULE:NAME of a function that plays with an agent of others
            play = cast("Play", load(config.agent, "agent", {}))
            seconds = config.attempt_seconds
            return GatewayAgent(play, self.engine, self.tokenizer, temperature, config.turn_tokens, seconds)
        return config.spec.make(self.engine, Sampling(temperature=temperature), self.tokenizer)

    def tasks(self, name: str, split: str, number: int) -> list[Draw]:
        """Return the first tasks of a split's fixed list; where there are fewer, all of them."""
        with closing(make(self.envs[name].id, **{**self.envs[name].options, "split": split})) as env:
            return [Draw(task, env=name) for task in first_tasks(env, number)]

    async def collect(self, draws: Sequence[Draw], step: int, progress: Progress | None = None) -> list[Episode]:
        """Play a group of episodes of every draw, for a step counted from 0; of several at a time earlier ones go first."""
        seed, agents = derive("train", self.config.seed, step), self.agents(self.config.temperature)
        if self.grower is None:
            return await self._played(agents, draws, seed, f"{step + 1}/", progress, step)
        grown = await together(
            self.grower.grow(agents, self.jobs(draw, seed, f"{step + 1}/", step), step, progress) for draw in draws
        )
        return [episode for group in grown for episode in group]

    async def evaluate(self, draws: Sequence[Draw], prefix: str, progress: Progress | None = None) -> list[Episode]:
        """Play one episode of every draw."""
        seed = derive("evaluate", self.config.seed)
        if any(draw.hint for draw in draws):
            raise BadConfig("an evaluation is asked to play with hints; expected none: hints are for training alone")
        draws = [replace(draw, attempts=1) for draw in draws]
        return await self._played(self.agents(self.config.test_temperature), draws, seed, prefix, progress)

    async def _played(
        self,
        agents: Mapping[str, Any],
        draws: Sequence[Draw],
        seed: int,
        prefix: str,
        progress: Progress | None,
        step: int | None = None,
    ) -> list[Episode]:
        """Play every draw; of a training step, by its schedule of horizons."""
        agent, rank = next(iter(agents.values())), -1 if step is None else step
        if isinstance(agent, GatewayAgent):
            return await self._elsewhere(agent, draws, seed, prefix)
        jobs = [job for draw in draws for job in self.jobs(draw, seed, prefix, step)]
        if step is None:
            return await self.play(agents, jobs, progress, rank)
        return await self.generation.play(agents, jobs, partial(self.play, progress=progress, rank=rank), step)

    async def _elsewhere(self, agent: GatewayAgent, draws: Sequence[Draw], seed: int, prefix: str) -> list[Episode]:
        """Play with an agent of others, whose environment is wherever it plays."""
        for draw in draws:
            for name in ("start", "horizon", "sampling", "label", "hint"):
                if getattr(draw, name):
                    raise BadConfig(
                        f"a draw of task {draw.task.id!r} has {name}, and agent {self.config.agent!r} plays in an "
                        "environment of its own: use a task sampler without it"
                    )
        episodes: list[Episode] = []
        for attempts in dict.fromkeys(draw.attempts or self.config.group_size for draw in draws):
            alike = [draw for draw in draws if (draw.attempts or self.config.group_size) == attempts]
            episodes += await agent.collect(
                next(iter(self._ids.values())),
                tasks=[draw.task for draw in alike],
                repeats=[draw.epoch for draw in alike],
                attempts=attempts,
                seed=seed,
                concurrency=self.config.concurrency,
                group_prefix=prefix,
            )
        return episodes

    async def play(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], progress: Progress | None = None, rank: int = -1
    ) -> list[Episode]:
        """Play jobs and say of each episode where it was played."""
        episodes = await self.pool.collect(agents, jobs, progress=progress, rank=rank)
        for job, episode in zip(jobs, episodes, strict=True):
            episode.env = self._ids[job.env]
            if len(self.envs) > 1:
                episode.labels["env"] = job.env
        return episodes

    def jobs(self, draw: Draw, seed: int, prefix: str, step: int | None = None) -> list[Job]:
        """Return the episodes of a draw; of a training step, with the horizon of its schedule."""
        seed = derive("again", seed, draw.epoch) if draw.epoch else seed
        seed = derive("label", seed, draw.label) if draw.label else seed
        group = self.group_id(draw, prefix)
        horizon = draw.horizon
        if horizon is None and step is not None:
            horizon = self.config.horizon_at(step, self.envs[draw.env].horizon)
        if step is not None:
            _check_sampling(draw)
        attempts = draw.attempts or self.config.group_size
        plain = 0 if draw.hinted is None else attempts - draw.hinted
        return [
            Job(draw.task, n, seed, group, draw.env, horizon, draw.start, draw.sampling, draw.hint if n >= plain else None)
            for n in range(attempts)
        ]

    def group_id(self, draw: Draw, prefix: str) -> str:
        """Return what the episodes of a draw have in common."""
        return group_of(f"{prefix}{draw.env}/" if len(self.envs) > 1 else prefix, draw.task, draw.epoch) + draw.label

    def close(self) -> None:
        """Free all environments."""
        self.pool.close()
        for env in self._askable.values():
            env.close()


def _check_sampling(draw: Draw) -> None:
    """Raise BadConfig for a way to draw replies whose log-probabilities the trainer cannot compute."""
    for name, value in draw.sampling.items():
        if name not in ("temperature", "max_tokens"):
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; training takes only temperature and max_tokens")
        if not value > 0:
            raise BadConfig(f"a task sampler asks for {name} = {value!r}; expected more than 0")
