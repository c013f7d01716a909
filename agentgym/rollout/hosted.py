"""An environment as a rollout sees it, wherever it runs, and one that runs in this process."""

import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info, RoleReward
from agentgym.core.wrapper import checked
from agentgym.rollout.limits import CONTAINED, described, is_ctrl_c, time_limit

T = TypeVar("T")
StepResult = tuple[str, float, bool, bool, Info]


_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Status(NamedTuple):
    """Where the episode of an environment stands: immutable, and equal where nothing changed."""

    limit: int = 0
    """The horizon of the episode."""
    role: str = "agent"
    """Who acts next."""
    tools: Mapping[str, Tool] = _EMPTY
    """What may be called."""
    totals: Mapping[str, float] = _EMPTY
    """The rewards so far by role."""
    outcomes: Mapping[str, RoleReward] = _EMPTY
    """The outcome by role; empty until the episode is over."""


def status_of(env: TextEnv) -> Status:
    """Return the status of an environment of this process."""
    return Status(env.limit, env.role, dict(env.tools), dict(env.totals), env.outcomes)


class HostedEnv(Protocol):
    """What a rollout needs of an environment, wherever it runs."""

    @property
    def env(self) -> Any:
        """What agents that are part of the environment ask, by `consult`: its stand-in, wherever it is."""

    @property
    def usable(self) -> bool:
        """Whether another episode may be played here."""
        ...

    @property
    def status(self) -> Status:
        """Where the episode stands after the last reset, restore or step."""
        ...

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode within so many seconds."""
        ...

    async def step(self, action: str, seconds: float) -> StepResult:
        """Carry out one action within so many seconds."""
        ...

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything `restore` needs to go on from here, in this or another environment of the same kind."""
        ...

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Go on from a snapshot, later chance drawn afresh where a seed is given; return what the agent sees there."""
        ...

    async def check(self, seconds: float) -> None:
        """Check what the environment leans on (`TextEnv.health_check`); a Fault where it fails."""

    def close(self) -> None:
        """Free what the environment holds."""


class LocalEnv:
    """An environment in this process; a step that runs too long is interrupted (in the main thread, on POSIX).

    Agents that are part of the environment see it as this, with the environment's own attributes. `owned`: `close` closes
    the environment.
    """

    usable = True

    def __init__(self, env: TextEnv, timings: dict[str, float] | None = None, *, owned: bool = True) -> None:
        self._env, self._timings, self._owned = env, timings, owned
        self._seconds = 60.0
        self.status = status_of(env)

    @property
    def env(self) -> "LocalEnv":
        """What agents ask in place of the environment."""
        return self

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`; a Fault where that takes longer than a step may."""
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
        """Carry out one action."""
        return self.step_here(action, seconds)

    def step_here(self, action: str, seconds: float) -> StepResult:
        """Carry out one action, for a caller that has no event loop to wait in."""
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
        """Return everything `restore` needs to go on from here."""
        with time_limit(seconds, "snapshot"):
            return self._env.snapshot()

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Go on from a snapshot."""
        self._seconds = seconds
        with time_limit(seconds, "restore"):
            self._env.restore(state, seed=seed)
            self.status = status_of(self._env)
            return self._env.observation, self._env.info()

    async def check(self, seconds: float) -> None:
        """Check what the environment leans on."""
        with time_limit(seconds, "health check"):
            self._env.health_check()

    def close(self) -> None:
        """Free what the environment holds; one that is not owned stays open."""
        if self._owned:
            close(self._env)


def close(env: TextEnv) -> None:
    """Close an environment; what that raises is a warning, for its episodes have ended, and the others go on."""
    try:
        env.close()
    except CONTAINED as error:  # a connection that broke, say, whose environment is closed for that
        if is_ctrl_c(error):
            raise
        warnings.warn(f"closing an environment ({type(env.unwrapped).__name__}) failed: {described(error)}", stacklevel=2)
