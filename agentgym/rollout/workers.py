"""Where environments live during a rollout: in this process, or, if they may block, in worker processes."""

import asyncio
import multiprocessing
import queue
import signal
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.errors import BadConfig, Fault
from agentgym.rollout.spawning import GUARD, defined_in_script, spawned

StepResult = tuple[str, float, bool, bool, Info]
T = TypeVar("T")


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


@contextmanager
def time_limit(seconds: float, what: str) -> Generator[None]:
    """Raise `Fault(reason="timeout")` when the block runs longer; outside the main thread there is no limit."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise Fault(f"the environment's {what} took longer than {seconds:g} s", reason="timeout")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Workers:
    """Long-lived spawned processes, many environments in each, one thread an environment."""

    def __init__(self, make: Callable[[], TextEnv], count: int) -> None:
        self.make = make
        self.count = max(1, count)
        self.processes: list[_Process] = []
        self.retries, self.trials = asyncio.Semaphore(self.count), asyncio.Semaphore(self.count)
        """How many processes of their own there may be: for episodes played again, and to judge faults."""

    def hosted(self) -> "RemoteEnv":
        """Return a fresh environment in the process that holds the fewest."""
        self.processes = [p for p in self.processes if p.usable()]
        if len(self.processes) < self.count:
            self.processes.append(_Process(self.make))
        process = min(self.processes, key=lambda p: p.hosted_envs)
        return RemoteEnv(process)

    def single(self) -> "RemoteEnv":
        """Return an environment in a process of its own, which ends with the environment."""
        process = _Process(self.make)
        process.condemned = True
        return RemoteEnv(process)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator["RemoteEnv"]:
        """Give an environment in a process of its own to judge a fault in, `count` of them at a time."""
        async with self.trials:
            yield self.single()

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
        self.processes = []


class _Process:
    """One worker process and the replies it still owes."""

    def __init__(self, make: Callable[[], TextEnv]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, make), daemon=True)
        self._imports_script, self._heard = defined_in_script(make), False
        with _allowed_children(), spawned(script=self._imports_script):
            self.process.start()
        theirs.close()
        self.hosted_envs = self.next_number = 0
        self.condemned = False
        self.pending: dict[int, asyncio.Future[Any]] = {}
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.connection.fileno(), self._read)

    def usable(self) -> bool:
        """Whether new environments may be put here."""
        return not self.condemned and self.process.is_alive()

    async def ask(self, hosted: int, request: tuple[object, ...], seconds: float) -> Any:
        """Send a request to one environment and wait for its reply; a hang or a dead process is a Fault."""
        future = self.loop.create_future()
        self.pending[hosted] = future
        try:
            self.connection.send((hosted, *request))
            ok, value = await asyncio.wait_for(future, seconds)
        except TimeoutError:
            if not future.cancelled():  # it had come, and this process was too busy to look: with an update, a checkpoint
                return self._value(*future.result())
            self.condemned = True  # its thread cannot be stopped: the process ends with its last episode
            raise Fault(f"the environment's {request[0]} took longer than {seconds:g} s", reason="timeout") from None
        except OSError as error:
            raise Fault(f"the worker process is gone: {error}") from error
        finally:
            self.pending.pop(hosted, None)
        return self._value(ok, value)

    @staticmethod
    def _value(ok: bool, value: Any) -> Any:
        if not ok:
            raise value if isinstance(value, Fault | BadConfig) else Fault(value, reason="crash")
        return value

    def _read(self) -> None:
        try:
            while self.connection.poll():
                hosted, ok, value = self.connection.recv()
                self._heard = True
                future = self.pending.get(hosted)
                if future and not future.done():
                    future.set_result((ok, value))
        except (EOFError, OSError):
            self.loop.remove_reader(self.connection.fileno())
            self.condemned = True
            reason = self._end()
            for future in self.pending.values():
                if not future.done():
                    future.set_result((False, reason))

    def _end(self) -> str | BadConfig:
        """Return why nothing more comes: it died, or the script that it imports failed, whose error is on the screen."""
        self.process.join(1)
        if self._heard or not self._imports_script or self.process.exitcode != 1:
            return "the worker process died"
        return BadConfig(f"a worker process imports this script, where the environment is defined, and failed: {GUARD}")

    def release(self, hosted: int) -> None:
        """Forget an environment; a condemned process ends with its last one."""
        self.hosted_envs -= 1
        if self.condemned and self.hosted_envs == 0:
            self.kill()
        elif not self.condemned:
            try:
                self.connection.send((hosted, "close"))
            except OSError:  # it died, and the news is still on its way
                self.condemned = True

    def kill(self) -> None:
        """End the process."""
        self.condemned = True
        if not self.connection.closed:
            self.loop.remove_reader(self.connection.fileno())
            self.connection.close()
        self.process.kill()
        self.process.join()


@contextmanager
def _allowed_children() -> Generator[None]:
    """Let a daemonic process, as those of `multiprocessing.Pool` are, start a worker.

    They may not, since their own end would leave children behind; a worker ends when its pipe does.
    """
    settings: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    daemonic = settings.pop("daemon", None)
    try:
        yield
    finally:
        if daemonic is not None:
            settings["daemon"] = daemonic


class RemoteEnv:
    """An environment in a worker process."""

    def __init__(self, process: _Process) -> None:
        self.process = process
        self.env = self
        self.seconds = 60.0
        self.number = process.next_number
        process.next_number += 1
        process.hosted_envs += 1
        self.limit, self.role = 0, "agent"
        self.totals: Mapping[str, float] = {}
        self.tools: Mapping[str, Tool] = {}

    @property
    def usable(self) -> bool:
        """Whether another episode may be played here: not beside a step that hangs, whose process must end."""
        return self.process.usable()

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode."""
        self.seconds = seconds
        result, status = await self.process.ask(self.number, ("reset", seed, options), seconds + 60)  # 60: its start
        self.limit, self.role, self.totals, self.tools = status
        return result

    async def step(self, action: str, seconds: float) -> StepResult:
        """Carry out one action."""
        result, status = await self.process.ask(self.number, ("step", action), seconds)
        self.limit, self.role, self.totals, self.tools = status
        return result

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything `restore` needs to go on from here."""
        return await self.process.ask(self.number, ("snapshot",), seconds)

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Go on from a snapshot."""
        self.seconds = seconds
        result, status = await self.process.ask(self.number, ("restore", state, seed), seconds + 60)  # 60: its start
        self.limit, self.role, self.totals, self.tools = status
        return result

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`, computed in the environment's process."""
        return await self.process.ask(self.number, ("consult", function, arguments), self.seconds)

    async def check(self, seconds: float) -> None:
        """Check what the environment leans on."""
        await self.process.ask(self.number, ("check",), seconds)

    def close(self) -> None:
        """Free the environment."""
        self.process.release(self.number)


def _work(connection: Connection, make: Callable[[], TextEnv]) -> None:
    """Serve requests in a worker process: one thread per environment, replies in any order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    inboxes: dict[int, queue.SimpleQueue[list[Any]]] = {}
    lock = threading.Lock()
    while True:
        try:
            hosted, *request = connection.recv()
        except (EOFError, OSError):
            return
        if hosted not in inboxes:
            inboxes[hosted] = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(hosted, inboxes[hosted], connection, lock, make), daemon=True).start()
        inboxes[hosted].put(request)
        if request[0] == "close":
            del inboxes[hosted]


def _serve(
    hosted: int,
    inbox: "queue.SimpleQueue[list[Any]]",
    connection: Connection,
    lock: threading.Lock,
    make: Callable[[], TextEnv],
) -> None:
    env: TextEnv | None = None
    while True:
        request = inbox.get()
        try:
            if request[0] == "close":
                if env:
                    env.close()
                return
            env = env or make()
            reply = (True, _answer(env, request))
        except (Fault, BadConfig) as error:  # a fault with its reason; BadConfig ends the rollout here as it does there
            reply = (False, error)
        except Exception:  # the rollout boundary, seen from the other side
            reply = (False, traceback.format_exc(limit=8))
        with lock:
            connection.send((hosted, *reply))


def _answer(env: TextEnv, request: list[Any]) -> Any:
    if request[0] == "consult":
        return request[1](env, *request[2])
    if request[0] == "check":
        return env.health_check()
    if request[0] == "snapshot":
        return env.snapshot()
    if request[0] == "reset":
        result: Any = env.reset(seed=request[1], options=request[2])
    elif request[0] == "restore":
        env.restore(request[1], seed=request[2])
        result = env.observation, env.info()
    else:
        result = env.step(request[1])
    return result, (env.limit, env.role, dict(env.totals), dict(env.tools))
