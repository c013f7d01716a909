"""An episode for an external agent: text in, text out, in calls that never raise because of model output."""

import json
import traceback
from collections.abc import Coroutine, Mapping
from typing import Self, TypeVar

from agentgym import registry
from agentgym.agents.native import ACT, offered
from agentgym.core.actions import Call, Tool, parse_call
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.wrapper import forwarded
from agentgym.errors import BadConfig, EpisodeOver, Fault
from agentgym.rollout.caller_env import host_caller_env
from agentgym.rollout.interrupts import interrupts_watched

T = TypeVar("T")
OVER = "The episode is over ({reason}). Nothing was done."


class Session:
    """One environment and its episode, for harnesses that drive the agent themselves.

    `reset` starts an episode; `act(text)` and `call(tool, arguments)` return the next observation. After the end of the
    episode, `act` and `call` change nothing and return a notice. `tools` are the tools to call; if the environment has
    none, use `act(command)`. Everything runs in the caller's thread. A session has no tokens; use `agentgym.play` for
    tokens.
    """

    info: Info
    """Info that came with the last observation; not set before `reset`."""

    def __init__(self, env: TextEnv | str, *, step_seconds: float = 60.0, **options: object) -> None:
        """Use an environment, which stays open at `close`, or make one from an id and the environment's options.

        Raises:
            BadConfig: options are passed along with an environment.
        """
        if not isinstance(env, str) and options:
            raise BadConfig(f"options ({', '.join(options)}) go with a registered id, not with an environment")
        self._own = isinstance(env, str)
        self.env: TextEnv = registry.make(env, **options) if isinstance(env, str) else forwarded(env)
        self.hosted = host_caller_env(self.env)
        self._seconds = max(step_seconds, self.env.step_seconds)
        self.task = Task()
        self.tools: Mapping[str, Tool] = offered(self.env.tools)
        self.observation = ""
        """Last observation, from a reset, a step, or a failure of the environment; empty before `reset`."""
        self.rewards: list[float] = []
        """Reward of each turn so far; a step that raises an error adds none."""
        self.turns = self.invalid = self.late = 0
        """Number of actions so far, of those that were invalid, and of actions after the end, which had no effect."""
        self.done = True
        self.success: bool | None = None
        """Outcome of the episode; None while undecided, and after a fault."""
        self.reason: str | None = None
        """Reason for the end, or None. `timeout`, `crash` and `engine` are faults, which are never trained on."""
        self.error: str | None = None

    @property
    def reward(self) -> float:
        """Sum of rewards in the episode so far."""
        return sum(self.rewards, 0.0)

    def reset(self, task: Task | str | int | None = None, *, seed: int = 0, horizon: int | None = None) -> str:
        """Start an episode and return its first observation.

        `task` is a Task, its id or its number; None draws a task by `seed`. If the environment fails, the episode ends at
        once as a fault.

        Raises:
            BadConfig: the task or the horizon is invalid.
        """
        self.task = self.env.named_task(task, generator("reset", seed))
        options: dict[str, object] = {"task": self.task, **({} if horizon is None else {"horizon": horizon})}
        self.turns = self.invalid = self.late = 0
        self.rewards, self.done = [], False
        self.success = self.reason = self.error = None
        try:
            self.observation, self.info = _now(self.hosted.reset(seed, options, self._seconds))
        except BadConfig:
            self.done = True  # else the next action would go into the previous or a half-started episode
            raise
        except Exception as error:
            self._broken(error)
        self.tools = offered(self.hosted.status.tools)
        return self.observation

    def act(self, action: str) -> str:
        """Execute an action, given as the text that the environment parses, and return the observation.

        Raises:
            EpisodeOver: no episode was started.
            BadConfig: no episode could be played with this configuration.
        """
        if self.reason is None and self.done:
            raise EpisodeOver("no episode was started: call reset() first")
        if self.done:
            self.late += 1
            return OVER.format(reason=self.reason)
        self.turns += 1
        try:
            step = _now(self.hosted.step(action, self._seconds))
        except BadConfig:
            raise
        except Exception as error:  # as in a rollout, it only ends this episode
            self._broken(error)
            return self.observation
        self.observation, reward, terminated, truncated, self.info = step
        self.rewards.append(reward)
        self.invalid += not self.info["valid"]
        self.tools = offered(self.hosted.status.tools)
        self.done = terminated or truncated
        if self.done:
            self.success, self.reason, self.error = self.info["success"], self.info["reason"], self.info["error"]
        return self.observation

    def call(self, name: str, arguments: Mapping[str, object] | None = None) -> str:
        """Call a tool and return the observation; a malformed call is an invalid action, which the environment explains."""
        text = json.dumps({"name": name, "arguments": dict(arguments or {})}, ensure_ascii=False, default=str)
        call = parse_call(text, self.tools) if ACT.name in self.tools and not self.env.tools else None
        return self.act(str(call.arguments["command"]) if isinstance(call, Call) else text)

    def close(self) -> None:
        """Close everything that this session created; an environment that was passed in stays open."""
        self.hosted.close()
        if self._own:
            self.env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _broken(self, error: Exception) -> None:
        """End the episode as a fault."""
        self.done, self.success, self.observation = True, None, "The environment failed; the episode is over."
        self.reason = error.reason if isinstance(error, Fault) else "crash"
        self.error = str(error) if isinstance(error, Fault) else "".join(traceback.format_exception(error, limit=-8))


def _now(work: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine that never waits, such as a step of an environment in this process.

    Raises:
        RuntimeError: the coroutine waits.
    """
    try:
        with interrupts_watched():
            work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("an environment of this process waited")
