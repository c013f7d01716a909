"""Rollouts of a training run: its environments and agents; `agentgym.rollout` plays the groups."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, cast

from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.engines import Sampling
from agentgym.harness.description import is_harness, plays_itself
from agentgym.harness.description import load as harness_of
from agentgym.registry import Maker, full_id, load, make
from agentgym.rollout.draw import Draw
from agentgym.rollout.groups import Groups
from agentgym.rollout.pool import RolloutPool
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, settings_in
from agentgym.trainers.run.stages import Stages
from agentgym.trainers.samplers.interface import TaskSource, first_tasks


class Rollouts(Groups):
    """Plays the draws of a task sampler. Environments, worker processes and browsers live as long as this object."""

    def __init__(self, config: TrainConfig, engine: Any, tokenizer: object, stages: Stages | None = None) -> None:
        self.config, self.engine, self.tokenizer = config, engine, tokenizer
        self.envs: dict[str, EnvSpec] = {env.name: env for env in config.mix}
        pool = RolloutPool({name: Maker(env.id, env.options) for name, env in self.envs.items()}, config)
        ids = {name: full_id(env.id) for name, env in self.envs.items()}
        super().__init__(config, pool, ids, (stages or Stages(config)).branching)
        self._agents: dict[float, dict[str, object]] = {}
        self._query_envs: dict[str, TextEnv] = {}

    def sources(self) -> list[TaskSource]:
        """Return the sources of training tasks, one per environment."""
        seed = self.config.seed
        return [
            TaskSource(self.env(name), seed, env.train_split or "train", name, env.weight) for name, env in self.envs.items()
        ]

    def env(self, name: str) -> TextEnv:
        """Return the instance of an environment that only answers queries about tasks; it plays no episodes."""
        if name not in self._query_envs:
            self._query_envs[name] = make(self.envs[name].id, **self.envs[name].options)
        return self._query_envs[name]

    def agents(self, temperature: float) -> Mapping[str, Any]:
        """Return the agent of each environment, by the environment's name, with this sampling temperature."""
        if temperature not in self._agents:
            self._agents[temperature] = {name: self._agent(env, temperature) for name, env in self.envs.items()}
        return self._agents[temperature]

    def _agent(self, env: EnvSpec, temperature: float) -> object:
        config = settings_in(self.config, env)
        if is_harness(config.agent):
            from agentgym.gateway.sessions import Budget  # late: the gateway and containers
            from agentgym.harness.agent import HarnessAgent

            return HarnessAgent(
                None,
                self.engine,
                self.tokenizer,
                temperature,
                config.turn_tokens,
                config.attempt_seconds,
                harness=harness_of(config.agent),
                options=env.options,
                budget=Budget(config.attempt_turns, config.attempt_tokens, turn_tokens=config.turn_tokens),
                side_calls=config.side_calls,
            )
        if config.agent not in AGENTS:  # MODULE:NAME of a function that plays with an external agent
            from agentgym.harness.gateway_agent import GatewayAgent, Play

            play = cast("Play", load(config.agent, "agent", {}))
            seconds = config.attempt_seconds
            return GatewayAgent(play, self.engine, self.tokenizer, temperature, config.turn_tokens, seconds)
        return config.spec.make(self.engine, Sampling(temperature=temperature), self.tokenizer)

    def tasks(self, name: str, split: str, number: int) -> list[Draw]:
        """Return the first `number` tasks of a split's fixed list, or all if there are fewer."""
        with closing(make(self.envs[name].id, **{**self.envs[name].options, "split": split})) as env:
            return [Draw(task, env=name) for task in first_tasks(env, number)]

    def horizon(self, env: str, step: int) -> int | None:
        """Return the turns per episode in a training step, by the schedule of `env`; None without a schedule."""
        return self.config.horizon_at(step, self.envs[env].horizon)

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return {"horizon": turns per episode of a step, by environment} for schedules of several stages, or {}."""
        turns = {name: self.horizon(name, step) for name, env in self.envs.items() if len(env.horizon) > 1}
        horizons = {name: float(number) for name, number in turns.items() if number is not None}
        return {"horizon": horizons} if horizons else {}

    def close(self) -> None:
        """Close all environments and agents."""
        super().close()
        for agents in self._agents.values():
            for agent in agents.values():
                if plays_itself(agent):
                    agent.close()
        for env in self._query_envs.values():
            env.close()
