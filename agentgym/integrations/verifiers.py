"""Prime Intellect's verifiers (0.4, its `v1`): our environments as a taskset there, and single-turn tasksets of theirs here.

There: a module of your own with one line, `from agentgym.integrations.verifiers import *`, is a taskset package:
`vf-eval my_taskset --env.taskset.env rlvr/SQL-v0`. Here: `agentgym.make("verifiers:NAME")`. See docs/guides/integrations.md.
"""

# verifiers is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportIncompatibleMethodOverride=false

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import verifiers.v1 as vf
from pydantic import create_model

from agentgym import registry
from agentgym.agents.message_agent import MessageAgent
from agentgym.engines import Completion, Sampling
from agentgym.episodes.episode import Episode
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.rollout.session import Session

__all__ = ["AgentgymData", "AgentgymEnv", "AgentgymEnvConfig", "AgentgymTask", "AgentgymTaskset", "__all__"]
MOST = 1 << 16
"""Episodes at once: as many as verifiers starts, which has its own limit (`max_concurrent`)."""


class AgentgymData(vf.TaskData):
    """Reference to one of our tasks."""

    env: str
    options: dict[str, Any]
    task_id: str


class AgentgymConfig(vf.TasksetConfig):
    """Which environment, and how many of its tasks."""

    env: str = ""
    """Id of the environment, for example rlvr/SQL-v0."""
    split: str = "train"
    tasks: int = 100
    """Number of tasks from the split's fixed list."""
    options: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it
    """Keywords of the environment."""


class AgentgymTask(vf.Task[AgentgymData]):
    """An agentgym task; `validate` plays its oracle."""

    @property
    def key(self) -> str:
        """Environment and task id."""
        return f"{self.data.env} {self.data.task_id}"

    async def validate(self, runtime: object) -> bool | None:
        """Return whether the oracle solves the task; None if the environment has no oracle."""
        with Session(self.data.env, **self.data.options) as session:
            session.reset(self.data.task_id)
            try:
                while not session.done:
                    session.act(next(iter(session.env.oracle())))
            except NotImplementedError:
                return None
            except StopIteration:
                return False
            return bool(session.success)


class AgentgymTaskset(vf.Taskset[AgentgymTask, AgentgymConfig]):
    """The tasks of a split."""

    def load(self) -> Iterator[AgentgymTask]:
        """Yield them."""
        config = self.config
        options = {**config.options, "split": config.split}
        env = registry.make(config.env, **options)
        for task in env.up_to(config.tasks, config.split):
            data = AgentgymData(id=task.id, name=task.id, env=config.env, options=options, task_id=task.id)
            yield AgentgymTask(data, config.task)
        env.close()


def taskset_of(env: str, options: dict[str, Any]) -> type[AgentgymTaskset]:
    """Return a taskset class of one environment, for a separate package: `__all__ = ["AgentgymEnv", "Packaged"]`."""
    fields = {"env": (str, env), "options": (dict[str, Any], options)}
    config = create_model("PackagedConfig", __base__=AgentgymConfig, **fields)  # type: ignore[call-overload]

    class Packaged(AgentgymTaskset, vf.Taskset[AgentgymTask, config]):  # type: ignore[valid-type]
        """The tasks of a split."""

    return Packaged


class AgentgymEnvConfig(vf.EnvConfig):
    """Agent that plays, and its prompt."""

    policy: vf.AgentConfig = vf.AgentConfig(harness=vf.HarnessConfig(id="null"), runtime=vf.SubprocessConfig())
    """A plain chat loop in a local process; it runs no code."""
    prompt: str | None = None
    """One of our prompts, by name or file; None selects it by environment."""
    horizon: int | None = None


class AgentgymEnv(vf.Env[AgentgymEnvConfig]):
    """Plays an episode with the agent of a run; replies are parsed, and faults judged, as in an agentgym rollout."""

    def __init__(self, config: AgentgymEnvConfig) -> None:
        super().__init__(config)
        self._pools: dict[str, RolloutPool] = {}
        self._attempts: Counter[str] = Counter()

    async def run(self, task: AgentgymTask, agents: Any) -> None:
        """Play an episode; its reward and measures go to the trace.

        Raises:
            EnvError: after an infrastructure error, which verifiers retries.
        """
        data = task.data
        name = registry.full_id(data.env)
        pool = self._pools.setdefault(
            repr((name, data.options)),
            RolloutPool({name: registry.Maker(data.env, data.options)}, RolloutConfig(concurrency=MOST)),
        )
        attempt = self._attempts[data.task_id]
        self._attempts[data.task_id] += 1
        async with agents.policy.interaction(task) as interaction:
            agent = MessageAgent(Seat(interaction), prompt=self.config.prompt, tools="text")
            job = Job(pool.probe(name).find(data.task_id), attempt, 0, data.task_id, name, self.config.horizon)
            (episode,) = await pool.collect(agent, [job])
        if episode.fault:
            raise vf.EnvError(f"{episode.reason}: {episode.error}")
        record(interaction.trace, episode)

    async def stop(self) -> None:
        """Free the environments."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        await super().stop()


class Seat:
    """An agent of verifiers as an agentgym engine: it receives the new messages and returns its reply."""

    def __init__(self, interaction: Any) -> None:
        self._interaction = interaction

    async def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], sampling: Sampling, session: str
    ) -> Completion:
        """Return the reply to the messages after the last reply; beyond the run's limits, report a full context."""
        last = max((place for place, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        segment = await self._interaction.turn("\n\n".join(str(message["content"]) for message in messages[last + 1 :]))
        return Completion([], [], "context" if segment.terminated else "stop", text=segment.last_reply)

    def abort(self, session: str) -> None:
        """Do nothing: no request outlives its turn."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def record(trace: Any, episode: Episode) -> None:
    """Write an episode's outcome into a trace."""
    trace.record_reward("reward", episode.reward)
    trace.record_metrics(
        {
            "success": float(bool(episode.success)),
            "turns": float(len(episode.turns)),
            "invalid": float(sum(not turn.valid for turn in episode.turns)),
            **episode.metrics,
        }
    )
    trace.info["agentgym"] = {
        "task_id": episode.task_id,
        "seed": episode.seed,
        "reason": episode.reason,
        "turn_rewards": [turn.reward for turn in episode.turns],
        "state_keys": [turn.state_key for turn in episode.turns],
    }


def taskset(name: str, **options: object) -> Any:
    """Return a taskset of verifiers by its id, made with options of its configuration."""
    loaders = importlib.import_module("verifiers.v1.utils.loaders")
    kind = loaders.taskset_config_type(name)
    return loaders.load_taskset(kind.model_validate({"id": name, **options}))
