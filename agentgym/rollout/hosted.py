"""An environment as a rollout sees it, wherever it runs, and one that runs in this process."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.core.wrapper import checked
from agentgym.rollout.limits import CONTAINED, described, is_ctrl_c, time_limit

T = TypeVar("T")
StepResult = tuple[str, float, bool, bool, Info]


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
    def limit(self) -> int:
        """The horizon of the running episode."""
        ...

    @property
    def role(self) -> str:
        """Who acts next."""
        ...

    @property
    def totals(self) -> Mapping[str, float]:
        """The rewards so far by role."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What may be called."""
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


class ConsultedEnv:
    """An environment of this process as agents see it: what it is asked takes no longer than a step may."""

    def __init__(self, env: TextEnv) -> None:
        self._env, self.seconds = env, 60.0

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`; a Fault where that takes too long (in the main thread, on POSIX)."""
        with time_limit(self.seconds, "answer to an agent"):
            return function(self._env, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


class LocalEnv:
    """An environment in this process; a step that runs too long is interrupted (in the main thread, on POSIX)."""

    usable = True

    def __init__(self, env: TextEnv, timings: dict[str, float] | None = None) -> None:
        self._env, self.env = env, ConsultedEnv(env)
        self._timings = timings
        self.tools: Mapping[str, Tool] = env.tools
        self.limit, self.role, self.totals = env.limit, env.role, env.totals

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode."""
        started, self.env.seconds = time.perf_counter(), seconds
        with time_limit(seconds, "reset"):
            result = self._env.reset(seed=seed, options=options)
            self._look()
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
            self.role, self.totals = self._env.role, self._env.totals  # totals: another dictionary after a `restore`
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
        self.env.seconds = seconds
        with time_limit(seconds, "restore"):
            self._env.restore(state, seed=seed)
            self._look()
            return self._env.observation, self._env.info()

    def _look(self) -> None:
        env = self._env
        self.limit, self.role, self.totals, self.tools = env.limit, env.role, env.totals, env.tools

    async def check(self, seconds: float) -> None:
        """Check what the environment leans on."""
        with time_limit(seconds, "health check"):
            self._env.health_check()

    def close(self) -> None:
        """Free what the environment holds."""
        close(self._env)


def close(env: TextEnv) -> None:
    """Close an environment; what that raises is a warning, for its episodes have ended, and the others go on."""
    try:
        env.close()
    except CONTAINED as error:  # a connection that broke, say, whose environment is closed for that
        if is_ctrl_c(error):
            raise
        warnings.warn(f"closing an environment ({type(env.unwrapped).__name__}) failed: {described(error)}", stacklevel=2)
