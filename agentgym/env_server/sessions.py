"""Sessions of a served environment: their number, their lifetime, and the data that clients can see."""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

from agentgym.core.env import Snapshot, TextEnv
from agentgym.env_server.task_maker import TaskMaker
from agentgym.errors import BadConfig, EpisodeOver, Fault
from agentgym.rollout.faults import CAUSED, RetryingEnv
from agentgym.rollout.hosted import HostedEnv, LocalEnv, StepResult
from agentgym.rollout.workers import Workers
from agentgym.serving.asgi import Refusal

JsonObject = dict[str, Any]

_log = logging.getLogger(__name__)
_ACTIONS = 16 << 20  # maximum characters of an episode's actions, which are stored in case a step must be repeated
_PUBLIC = ("task_id", "valid", "error", "admissible", "rewards", "success", "reason")
DECIDED = (None, "success", "failure", "horizon")
"""Reasons that clients can see; any other is an infrastructure error, whose text stays in the server's log."""


@dataclass(frozen=True)
class Limits:
    """Limits of one server."""

    sessions: int = 64
    """Maximum number of open sessions."""
    idle_seconds: float = 600.0
    """Seconds after which an unused session ends."""
    step_seconds: float = 60.0
    """Maximum seconds for a step or reset."""
    snapshots: int = 16
    """Maximum number of snapshots per session; a new one replaces the oldest."""
    workers: int = 2
    """Number of worker processes for an environment with blocking steps."""

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, number in numbers.items():
            if not number > 0:
                raise BadConfig(f"--{name.replace('_', '-')} is {number}; expected a number above 0")


@dataclass(slots=True, eq=False)
class Session:
    """One client's environment. `id` is a secret: anyone who knows it may use the session."""

    connected: bool
    """True if a WebSocket connection owns the session and enforces its idle time."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    env: RetryingEnv | None = None
    used: float = field(default_factory=time.monotonic)
    busy: bool = False
    running: bool = False
    brief: bool = False
    """True if answers to steps omit the info until the episode is over."""
    turn: int = 0
    action_chars: int = 0
    """Total characters of the episode's actions so far."""
    episode: str = ""
    task_id: str = ""
    snapshots: dict[str, tuple[Snapshot, int]] = field(default_factory=dict[str, tuple[Snapshot, int]])


_BUSY = (409, "the session is busy with another request", "SESSION_BUSY")


class Sessions:
    """The sessions of one environment; blocking environments live in worker processes.

    Clients see the observation, the reward, whether the episode is over, and the public part of the info. `state_key` is
    hashed again with a secret of this server, so that clients cannot find out a state by trying possible ones.
    """

    def __init__(self, make: Callable[[], TextEnv], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.probe = make()
        self.open: dict[str, Session] = {}
        self._make = make
        self._seconds = max(self.limits.step_seconds, self.probe.step_seconds)
        self._tasks = TaskMaker(make, self.probe, self._seconds)
        self._secret = secrets.token_bytes(32)
        self._workers: Workers | None = None
        self._free: list[RetryingEnv] = []
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # Sessions

    def begin(self, connected: bool = False) -> Session:
        """Open a session; `connected` means that a WebSocket connection owns it.

        Raises:
            Refusal: too many sessions are open, or the server is shutting down.
        """
        self.check_room()
        session = Session(connected)
        self.open[session.id] = session
        self._watch()
        return session

    def check_room(self) -> None:
        """Check that there is room for another session.

        Raises:
            Refusal: too many sessions are open, or the server is shutting down.
        """
        if self._closed:
            raise Refusal(503, "the server is ending", "CAPACITY_REACHED")
        if len(self.open) >= self.limits.sessions:
            why = f"all {self.limits.sessions} sessions are in use; close one, or try again later"
            raise Refusal(503, why, "CAPACITY_REACHED")

    def find(self, id: object) -> Session:
        """Return the open session with this id.

        Raises:
            Refusal: no session has the id.
        """
        session = self.open.get(id) if isinstance(id, str) else None
        if session is None:
            raise Refusal(404, "there is no such session: it was closed, or was idle for too long", "SESSION_ERROR")
        return session

    def end(self, session: Session) -> None:
        """End a session and drop its snapshots; a later session may reuse its environment."""
        self.open.pop(session.id, None)
        session.snapshots.clear()
        env, session.env = session.env, None
        if env is None:
            return
        if session.busy or self._closed or not env.usable or len(self._free) >= self.limits.sessions:
            env.close()
        else:
            self._free.append(env)

    def close(self) -> None:
        """End all sessions and worker processes."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        for session in list(self.open.values()):
            self.end(session)
        for env in self._free:
            env.close()
        self._free.clear()
        self.probe.close()
        self._tasks.close()
        if self._workers:
            self._workers.close()

    def _watch(self) -> None:
        """End sessions without a connection that were idle too long; check again later while sessions are open."""
        now, idle = time.monotonic(), self.limits.idle_seconds
        for session in list(self.open.values()):
            if not session.connected and not session.busy and now - session.used > idle:
                self.end(session)
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(min(idle / 4, 30), self._watch) if self.open else None

    # Requests of a session

    async def reset(self, session: Session, data: JsonObject) -> dict[str, object]:
        """Start an episode; `data` may have `seed`, `task` (id, or number in the split), `horizon`, `episode_id`, `info`.

        Raises:
            Refusal: the session is busy.
        """
        seed, options = self._wanted(data)
        if session.busy:
            raise Refusal(*_BUSY)
        session.busy = True  # nobody else may use it while its task is made; if that fails, the old episode continues
        try:
            options |= await self._tasks.made(options.get("task"), seed)
        finally:
            session.busy = False
        env = self._given_up(session)
        session.brief = data.get("info", True) is False
        text, info = await self._run_env(session, "reset", env.reset(seed, options, self._seconds))
        session.running, session.turn, session.action_chars = True, 0, 0
        session.episode = str(data.get("episode_id") or secrets.token_hex(8))[:255]
        session.task_id = str(info["task_id"])
        return self._first(session, env, text, info)

    async def step(self, session: Session, action: str, brief: bool = False) -> dict[str, object]:
        """Carry out one action; with `brief`, the answer has no info until the episode is over."""
        return await self._awaited(session, self._acting(session, action).step(action, self._seconds), brief)

    def step_here(
        self, session: Session, action: str, brief: bool = False
    ) -> dict[str, object] | Coroutine[object, object, dict[str, object]]:
        """Carry out one action in an environment of this process; return the answer, or after a fault a coroutine for it."""
        result = self._acting(session, action).step_here(action, self._seconds)
        if not isinstance(result, tuple):
            return self._awaited(session, result, brief)
        session.used = time.monotonic()
        return self._stepped(session, result, brief)

    def _acting(self, session: Session, action: str) -> RetryingEnv:
        """Check that a session may act, count the action's characters, and return the environment.

        Raises:
            Refusal: no episode is running, the session is busy, or the episode's actions are too long in total.
        """
        env = session.env
        if env is None or not session.running:
            raise Refusal(409, "the episode is over, or none was started: reset first", "EPISODE_OVER")
        if session.busy:
            raise Refusal(*_BUSY)
        session.action_chars += len(action)
        if session.action_chars > _ACTIONS:
            raise Refusal(413, f"the episode's actions have more than {_ACTIONS} characters: reset", "VALIDATION_ERROR")
        return env

    async def _awaited(
        self, session: Session, work: Coroutine[object, object, StepResult], brief: bool
    ) -> dict[str, object]:
        """Return the answer of a running step; if the environment fails, the answer ends the episode with the fault.

        Raises:
            Refusal: the session is busy, or its episode is over.
        """
        try:
            result = await self._run_env(session, "step", work)
        except Refusal as refusal:
            if refusal.reason is None:
                raise
            session.running = False
            return self._answer(("", 0.0, False, True, {"valid": True, "reason": refusal.reason}))
        return self._stepped(session, result, brief)

    def _stepped(self, session: Session, result: StepResult, brief: bool) -> dict[str, object]:
        """Record the result of a step and return the answer; after a fault, drop the environment."""
        session.turn += 1
        session.running = not (result[2] or result[3])
        if result[4]["reason"] not in DECIDED:
            self._drop(session, str(result[4]["error"]))
        if (brief or session.brief) and session.running:
            return {"observation": {"text": result[0]}, "reward": result[1], "done": False}
        return self._answer(result)

    def state(self, session: Session) -> dict[str, object]:
        """Return the state of the episode in OpenEnv's format."""
        limit = session.env.status.limit if session.env else 0
        return {
            "episode_id": session.episode or None,
            "step_count": session.turn,
            "horizon": limit,
            "running": session.running,
        }

    async def snapshot(self, session: Session) -> dict[str, object]:
        """Store the state of the episode and return a handle, which `restore` accepts in this or another session.

        Raises:
            Refusal: no episode is running.
        """
        env = session.env
        if env is None or not session.running:
            raise Refusal(409, "no episode is running: reset first", "EPISODE_OVER")
        state = await self._run_env(session, "snapshot", env.snapshot(self._seconds))
        handle = secrets.token_urlsafe(24)
        session.snapshots[handle] = state, session.turn
        if len(session.snapshots) > self.limits.snapshots:
            del session.snapshots[next(iter(session.snapshots))]
        return {"snapshot": handle}

    async def restore(self, session: Session, data: JsonObject) -> dict[str, object]:
        """Continue from the snapshot with handle `data["snapshot"]`; with `data["seed"]`, later random draws differ.

        Raises:
            Refusal: the snapshot does not exist.
        """
        handle, seed = data.get("snapshot"), _seed(data)
        snapshot = (
            next((session.snapshots[handle] for session in self.open.values() if handle in session.snapshots), None)
            if isinstance(handle, str)
            else None
        )
        if snapshot is None:
            raise Refusal(404, "there is no such snapshot: it was dropped, or its session has ended", "SESSION_ERROR")
        env = self._given_up(session)
        text, info = await self._run_env(session, "restore", env.restore(snapshot[0], seed, self._seconds))
        session.running, session.turn, session.action_chars = True, snapshot[1], 0
        session.episode, session.task_id = secrets.token_hex(8), str(info["task_id"])
        return self._first(session, env, text, info)

    # Internals

    def _wanted(self, data: dict[str, object]) -> tuple[int, dict[str, object]]:
        seed = _seed(data)
        options = {name: data[name] for name in ("task", "horizon") if data.get(name) is not None}
        horizon, task = options.get("horizon", 1), options.get("task", 0)
        if isinstance(horizon, bool) or not isinstance(horizon, int) or not 1 <= horizon <= 100_000:
            raise Refusal(422, f"horizon is {horizon!r:.40}; expected a whole number from 1 to 100000", "VALIDATION_ERROR")
        if isinstance(task, bool) or not isinstance(task, (str, int)):
            raise Refusal(422, f"task is {task!r:.40}; expected a task's id, or its number", "VALIDATION_ERROR")
        return secrets.randbelow(2**31) if seed is None else seed, options

    def _given_up(self, session: Session) -> RetryingEnv:
        """End a session's episode and return its environment for reuse.

        Raises:
            Refusal: the session is busy.
        """
        if session.busy:
            raise Refusal(*_BUSY)
        session.running = False
        session.env = session.env or self._fresh()
        return session.env

    def _fresh(self) -> RetryingEnv:
        while self._free:
            env = self._free.pop()
            if env.usable:
                return env
            env.close()
        return RetryingEnv(self._hosted, self._alone)

    def _hosted(self) -> HostedEnv:
        return self._processes().hosted() if self.probe.blocking else LocalEnv(self._make())

    def _alone(self) -> AbstractAsyncContextManager[HostedEnv]:
        return self._processes().alone() if self.probe.blocking else nullcontext(LocalEnv(self._make()))

    def _processes(self) -> Workers:
        self._workers = self._workers or Workers([self._make], self.limits.workers)
        return self._workers

    async def _run_env(self, session: Session, what: str, work: Coroutine[object, object, object]) -> Any:
        """Run `work` in the session's environment and return its result; an environment that failed is not used again.

        `what` names the work in error messages.

        Raises:
            Refusal: the session is busy, the episode is over, or the environment failed (with a `reason`).
        """
        if session.busy:
            work.close()
            raise Refusal(*_BUSY)
        session.busy = True
        try:
            return await work
        except EpisodeOver as error:
            raise Refusal(409, str(error), "EPISODE_OVER") from None
        except Exception as error:  # the boundary between an environment and its clients
            _log.error("%s of session %s… failed", what, session.id[:4], exc_info=error)
            reason = error.reason if isinstance(error, Fault) else "crash"
            self._drop(session, "")
            raise Refusal(
                500, f"the environment failed in {what} ({reason}); the server's log says how", reason=reason
            ) from None
        finally:
            session.busy, session.used = False, time.monotonic()

    def _drop(self, session: Session, why: str) -> None:
        if why:
            _log.error("an episode of session %s… broke off: %s", session.id[:4], why)
        if session.env:
            session.env.close()
        session.env, session.running = None, False

    def _first(self, session: Session, env: HostedEnv, text: str, info: JsonObject) -> dict[str, object]:
        answer = self._answer((text, None, False, False, info))
        answer["observation"] |= {"tools": [tool.schema() for tool in env.status.tools.values()]}  # type: ignore[operator]
        if not session.connected:
            answer["session"] = session.id
        return answer

    def _answer(self, result: tuple[str, float | None, bool, bool, Mapping[str, object]]) -> JsonObject:
        text, reward, terminated, truncated, info = result
        public = {name: info.get(name) for name in _PUBLIC}
        if info.get("reason") not in DECIDED:
            public["error"] = f"the environment failed ({info['reason']})"
        elif str(public["error"]).startswith(CAUSED):
            public["error"], _, why = str(public["error"]).partition(":")
            _log.error("%s:%s", public["error"], why)
        key = cast("str | None", info.get("state_key"))
        public["state_key"] = key and hashlib.blake2b(key.encode(), key=self._secret, digest_size=8).hexdigest()
        if terminated or truncated:
            public["metrics"] = info.get("metrics", {})
        observation = {"text": text, "terminated": terminated, "truncated": truncated, "info": public}
        return {"observation": observation, "reward": reward, "done": terminated or truncated}


def _seed(data: dict[str, object]) -> int | None:
    seed = data.get("seed")
    if seed is None or (isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63):
        return seed
    raise Refusal(422, f"seed is {str(seed)[:40]}; expected a whole number from 0 to 2**63 - 1", "VALIDATION_ERROR")
