"""An environment as a rollout sees it, wherever it runs, and one that runs in this process."""

import time
from collections.abc import Mapping
from typing import Any, Protocol

from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.rollout.limits import time_limit

StepResult = tuple[str, float, bool, bool, Info]


class HostedEnv(Protocol):
    """What a rollout needs of an environment, wherever it runs."""

    @property
    def env(self) -> Any:
        """What agents that are part of the environment ask: the environment, or its stand-in for another process."""

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


class LocalEnv:
    """An environment in this process; a step that runs too long is interrupted (in the main thread, on POSIX)."""

    usable = True

    def __init__(self, env: TextEnv, timings: dict[str, float] | None = None) -> None:
        self.env = env
        self.timings = {} if timings is None else timings
        self.tools: Mapping[str, Tool] = env.tools
        self.limit, self.role, self.totals = env.limit, env.role, env.totals

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode."""
        started = time.perf_counter()
        with time_limit(seconds, "reset"):
            result = self.env.reset(seed=seed, options=options)
        self.timings["env"] = self.timings.get("env", 0.0) + time.perf_counter() - started
        self.limit, self.role, self.totals, self.tools = self.env.limit, self.env.role, self.env.totals, self.env.tools
        return result

    async def step(self, action: str, seconds: float) -> StepResult:
        """Carry out one action."""
        started = time.perf_counter()
        with time_limit(seconds, "step"):
            result = self.env.step(action)
        self.timings["env"] = self.timings.get("env", 0.0) + time.perf_counter() - started
        self.role, self.totals = self.env.role, self.env.totals  # totals: another dictionary after a `restore`
        return result

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything `restore` needs to go on from here."""
        with time_limit(seconds, "snapshot"):
            return self.env.snapshot()

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Go on from a snapshot."""
        with time_limit(seconds, "restore"):
            self.env.restore(state, seed=seed)
        self.limit, self.role, self.totals, self.tools = self.env.limit, self.env.role, self.env.totals, self.env.tools
        return self.env.observation, self.env.info()

    async def check(self, seconds: float) -> None:
        """Check what the environment leans on."""
        with time_limit(seconds, "health check"):
            self.env.health_check()

    def close(self) -> None:
        """Free what the environment holds."""
        self.env.close()
