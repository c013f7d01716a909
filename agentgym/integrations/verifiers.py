"""Prime Intellect's verifiers (0.4, its `v1`): use our environments there as a taskset, and their tasksets here.

To use our environments there, write a module with the line `from agentgym.integrations.verifiers import *`; it is a taskset
package: `vf-eval my_taskset --env.taskset.env rlvr/SQL-v0`. To use a single-turn taskset of theirs here, call
`agentgym.make("verifiers:NAME")`. See docs/guides/integrations.md.
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
"""Maximum number of concurrent episodes: high, because verifiers applies its own limit (`max_concurrent`)."""


class AgentgymData(vf.TaskData):
    """Data of a task: the environment, its options, and the task's id."""

    env: str
    options: dict[str, Any]
    task_id: str


class AgentgymConfig(vf.TasksetConfig):
    """Settings of a taskset: the environment, and the number of tasks."""

    env: str = ""
    """Id of the environment, for example rlvr/SQL-v0."""
    split: str = "train"
    tasks: int = 100
    """Number of tasks from the split's fixed list."""
    options: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it
    """Options of the environment."""


class AgentgymTask(vf.Task[AgentgymData]):
    """An agentgym task; `validate` plays the oracle on it."""

    @property
    def key(self) -> str:
        """Key of the task: environment and task id."""
        return f"{self.data.env} {self.data.task_id}"

    async def validate(self, runtime: object) -> bool | None:
        """Return True if the oracle solves the task, False if it does not, and None if the environment has no oracle."""
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
    """The tasks of one split of an environment."""

    def load(self) -> Iterator[AgentgymTask]:
        """Yield the first `config.tasks` tasks of the split."""
        config = self.config
        options = {**config.options, "split": config.split}
        env = registry.make(config.env, **options)
        for task in env.up_to(config.tasks, config.split):
            data = AgentgymData(id=task.id, name=task.id, env=config.env, options=options, task_id=task.id)
            yield AgentgymTask(data, config.task)
        env.close()


def taskset_of(env: str, options: dict[str, Any]) -> type[AgentgymTaskset]:
    """Return a taskset class for one environment, to be exported by a package: `__all__ = ["AgentgymEnv", "Packaged"]`."""
    fields = {"env": (str, env), "options": (dict[str, Any], options)}
    config = create_model("PackagedConfig", __base__=AgentgymConfig, **fields)  # type: ignore[call-overload]

    class Packaged(AgentgymTaskset, vf.Taskset[AgentgymTask, config]):  # type: ignore[valid-type]
        """The tasks of one split of the packaged environment."""

    return Packaged


class AgentgymEnvConfig(vf.EnvConfig):
    """Settings of the agent that plays: its harness, prompt and horizon."""

    policy: vf.AgentConfig = vf.AgentConfig(harness=vf.HarnessConfig(id="null"), runtime=vf.SubprocessConfig())
    """The agent: by default a plain chat loop in a local process, which runs no code."""
    prompt: str | None = None
    """Name or file of one of our prompts; None: the environment decides."""
    horizon: int | None = None


class AgentgymEnv(vf.Env[AgentgymEnvConfig]):
    """Plays episodes with the agent of a verifiers run; replies and faults are handled as in an agentgym rollout."""

    def __init__(self, config: AgentgymEnvConfig) -> None:
        super().__init__(config)
        self._pools: dict[str, RolloutPool] = {}
        self._attempts: Counter[str] = Counter()

    async def run(self, task: AgentgymTask, agents: Any) -> None:
        """Play an episode and write its reward and metrics to the trace.

        Raises:
            EnvError: the episode ended with an infrastructure error; verifiers retries it.
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
        """Close the environments."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        await super().stop()


class Seat:
    """An agent of verifiers as an agentgym engine: `chat` sends it the new messages and returns its reply."""

    def __init__(self, interaction: Any) -> None:
        self._interaction = interaction

    async def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], sampling: Sampling, session: str
    ) -> Completion:
        """Send the messages after the last reply and return the next reply; `finish` is "context" at a limit of the run."""
        last = max((place for place, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        segment = await self._interaction.turn("\n\n".join(str(message["content"]) for message in messages[last + 1 :]))
        return Completion([], [], "context" if segment.terminated else "stop", text=segment.last_reply)

    def abort(self, session: str) -> None:
        """Do nothing: no request outlives its call of `chat`."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def record(trace: Any, episode: Episode) -> None:
    """Write an episode's reward, metrics, task id, seed, reason and state keys to a trace of verifiers."""
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
    """Load a taskset of verifiers by id; options are fields of its configuration."""
    loaders = importlib.import_module("verifiers.v1.utils.loaders")
    kind = loaders.taskset_config_type(name)
    return loaders.load_taskset(kind.model_validate({"id": name, **options}))
