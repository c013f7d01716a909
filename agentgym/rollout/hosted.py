"""The interface of rollouts to environments, wherever they run, and its implementation for this process."""

import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info, RoleReward
from agentgym.core.wrapper import checked
from agentgym.rollout.limits import described, is_ctrl_c, time_limit

T = TypeVar("T")
StepResult = tuple[str, float, bool, bool, Info]


_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Status(NamedTuple):
    """State of an environment's episode. It is immutable, and compares equal if nothing has changed."""

    limit: int = 0
    """Maximum turns of the episode."""
    role: str = "agent"
    """Role that acts next."""
    tools: Mapping[str, Tool] = _EMPTY
    """Tools that the agent may call, by name."""
    totals: Mapping[str, float] = _EMPTY
    """Rewards so far, by role."""
    outcomes: Mapping[str, RoleReward] = _EMPTY
    """Outcome by role; empty until the episode is over."""


def status_of(env: TextEnv) -> Status:
    """Return the status of an environment in this process."""
    return Status(env.limit, env.role, dict(env.tools), dict(env.totals), env.outcomes)


class HostedEnv(Protocol):
    """Interface of rollouts to an environment, wherever that runs."""

    @property
    def env(self) -> Any:
        """Object that the environment's own policies (oracle, expert) query through `consult`."""

    @property
    def usable(self) -> bool:
        """True if another episode may be played here."""
        ...

    @property
    def status(self) -> Status:
        """Status after the last reset, restore or step."""
        ...

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode; the reset may take at most `seconds`."""
        ...

    async def step(self, action: str, seconds: float) -> StepResult:
        """Execute one action; the step may take at most `seconds`."""
        ...

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything that `restore` needs to continue from here, in this or another environment of the same kind."""
        ...

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Continue from a snapshot, with new random numbers if a seed is given; return the current observation and info."""
        ...

    async def check(self, seconds: float) -> None:
        """Check the health of the services and tools that the environment needs.

        Raises:
            Fault: a check failed.
        """

    def close(self) -> None:
        """Close the environment."""


class LocalEnv:
    """An environment in this process; a step that runs too long is interrupted (in the main thread, on POSIX).

    The environment's own policies (oracle, expert) query this object, which has the environment's attributes. If `owned`,
    `close` also closes the environment.
    """

    usable = True

    def __init__(self, env: TextEnv, timings: dict[str, float] | None = None, *, owned: bool = True) -> None:
        self._env, self._timings, self._owned = env, timings, owned
        self._seconds = 60.0
        self.status = status_of(env)

    @property
    def env(self) -> "LocalEnv":
        """This object, which policies query in place of the environment."""
        return self

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`.

        Raises:
            Fault: the call takes longer than a step may.
        """
        with time_limit(self._seconds, "answer to an agent"):
            return function(self._env, *arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._env, name)

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode."""
        started, self._seconds = time.perf_counter(), seconds
        with time_limit(seconds, "reset"):
            result = self._env.reset(seed=seed, options=options)
            self.status = status_of(self._env)
        self._timed(started)
        return result

    async def step(self, action: str, seconds: float) -> StepResult:
        """Execute one action."""
        return self.step_here(action, seconds)

    def step_here(self, action: str, seconds: float) -> StepResult:
        """Execute one action, for a caller without an event loop."""
        started = time.perf_counter()
        with time_limit(seconds, "step"):
            result = checked(self._env.step(action), self._env)
            self.status = status_of(self._env)
        self._timed(started)
        return result

    def _timed(self, started: float) -> None:
        if self._timings is not None:
            self._timings["env"] = self._timings.get("env", 0.0) + time.perf_counter() - started

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything that `restore` needs to continue from here."""
        with time_limit(seconds, "snapshot"):
            return self._env.snapshot()

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Continue from a snapshot."""
        self._seconds = seconds
        with time_limit(seconds, "restore"):
            self._env.restore(state, seed=seed)
            self.status = status_of(self._env)
            return self._env.observation, self._env.info()

    async def check(self, seconds: float) -> None:
        """Check the health of the services and tools that the environment needs."""
        with time_limit(seconds, "health check"):
            self._env.health_check()

    def close(self) -> None:
        """Close the environment if it is owned."""
        if self._owned:
            close(self._env)


def close(env: TextEnv) -> None:
    """Close an environment; errors become warnings, because its episodes have ended, while other environments continue.

    Raises:
        BaseException: the user pressed Ctrl-C.
    """
    try:
        env.close()
    except BaseException as error:  # for example a broken connection
        if is_ctrl_c(error):
            raise
        warnings.warn(f"closing an environment ({type(env.unwrapped).__name__}) failed: {described(error)}", stacklevel=2)
