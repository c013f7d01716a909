"""Environments in workers: processes on this machine, or actors of a Ray cluster."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, Fault
from agentgym.rollout.hosted import Status, StepResult

if TYPE_CHECKING:
    from agentgym.rollout.env_threads import Key, Request

T = TypeVar("T")
Make = Callable[[], TextEnv]

START_SECONDS = 600.0
"""Seconds after which a rollout ends if no worker has started."""
GATHER_SECONDS = 30.0
"""Seconds to wait for all workers, so that environments are spread evenly; after that, only started workers are used."""
FAILED_STARTS = 3
"""Number of consecutive failed worker starts that ends the rollout."""


class WorkerLost(Fault):
    """A worker's machine is gone, or the worker never ran. The episode did not cause that, so it is repeated elsewhere."""


class Worker(Protocol):
    """Runs environments elsewhere. A worker is made inside a running event loop, and only that loop may use it."""

    hosted: int
    """Number of environments in the worker."""
    last: int
    """Number of the worker's newest environment."""
    condemned: bool
    """True if the worker accepts no new environments, and ends when none of its environments are left."""

    def usable(self) -> bool:
        """Return True if new environments may be placed here."""
        ...

    async def begun(self) -> None:
        """Wait until the worker runs.

        Raises:
            Fault: the worker failed to start.
        """

    async def ask(self, env: "Key", request: "Request", seconds: float) -> Any:
        """Send a request to an environment and return the answer.

        Raises:
            Fault: the answer takes longer than `seconds`, or the worker ends.
        """
        ...

    def release(self, env: "Key") -> None:
        """Close an environment; a condemned worker instead ends when it has no environments left."""
        ...

    def kill(self) -> None:
        """End the worker at once."""
        ...


StartWorker = Callable[[Sequence[Make], bool], Worker]
"""Starts a worker that can make each of these environments; True means that it will run a single environment."""


@dataclass(frozen=True, slots=True)
class _Start:
    """Start of a worker: the task that waits for it, and its time on the event loop's clock, in seconds."""

    task: asyncio.Task[None]
    since: float


class Workers:
    """Workers that live as long as a run, with many environments in each.

    `makes` are the factories of environments; the index of a factory is the environment's `kind`.
    """

    def __init__(self, makes: Sequence[Make], count: int, start: StartWorker | None = None) -> None:
        self.count = max(1, count)
        if start is None:
            from agentgym.rollout.processes import ProcessWorker as start
        self._makes, self._start = tuple(makes), start
        self._starts: dict[Worker, _Start] = {}
        self._failures = 0
        self.retries, self.trials = asyncio.Semaphore(self.count), asyncio.Semaphore(self.count)
        """Limits on separate workers: those for replayed episodes, and those for judging faults."""

    def hosted(self, kind: int = 0) -> "RemoteEnv":
        """Return a new environment; before an episode it may move to the worker with the fewest environments."""
        return RemoteEnv(kind, self.place)

    def single(self, kind: int = 0) -> "RemoteEnv":
        """Return an environment in its own worker, which ends when the environment is closed."""
        worker = self._start([self._makes[kind]], True)
        worker.condemned = True

        async def place(_: Worker | None) -> Worker:
            await asyncio.wait_for(worker.begun(), START_SECONDS)
            return worker

        return RemoteEnv(0, place, worker)

    @asynccontextmanager
    async def alone(self, kind: int = 0) -> AsyncGenerator["RemoteEnv"]:
        """Yield an environment in its own worker, to judge a fault; at most `count` exist at a time."""
        async with self.trials:
            yield self.single(kind)

    async def place(self, present: Worker | None) -> Worker:
        """Return the worker with the fewest environments, or `present` if it is running and has at most one more."""
        workers = await self._standing()
        fewest = min(workers, key=lambda worker: worker.hosted)
        if present in workers and present.hosted <= fewest.hosted + 1:
            return present
        return fewest

    async def _standing(self) -> list[Worker]:
        """Start missing workers and return the workers that run, at least one.

        Raises:
            BadConfig: no worker could be started.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS
        while True:
            self._fill()
            now = loop.time()
            standing = [worker for worker, start in self._starts.items() if start.task.done()]
            coming = [start for start in self._starts.values() if not start.task.done()]
            wait = max((start.since for start in coming), default=0.0) + GATHER_SECONDS - now if standing else deadline - now
            if standing and (not coming or wait <= 0):
                return standing
            if wait <= 0:
                raise BadConfig(f"no worker could be started in {START_SECONDS:g} s: does any machine have room for one?")
            await asyncio.wait([start.task for start in coming], timeout=wait, return_when=asyncio.FIRST_COMPLETED)

    def _fill(self) -> None:
        """Remove workers that have ended or failed to start, and start new ones up to `count`.

        Raises:
            BadConfig: workers repeatedly fail to start.
        """
        loop = asyncio.get_running_loop()
        for worker, start in list(self._starts.items()):
            failure = start.task.exception() if start.task.done() else None
            if failure is not None and not isinstance(failure, WorkerLost):
                self._failures += 1
                if self._failures == FAILED_STARTS:
                    raise BadConfig(f"workers fail as they start: {failure}") from failure
            elif start.task.done() and failure is None:
                self._failures = 0
            if failure is not None or not worker.usable():
                start.task.cancel()
                del self._starts[worker]
                if failure is not None:
                    worker.kill()
        while len(self._starts) < self.count:
            worker = self._start(self._makes, False)
            self._starts[worker] = _Start(loop.create_task(worker.begun()), loop.time())

    def close(self) -> None:
        """End all workers."""
        for worker, start in self._starts.items():
            start.task.cancel()
            worker.kill()
        self._starts.clear()


class RemoteEnv:
    """An environment in a worker; before each episode, `place` chooses the worker."""

    def __init__(self, kind: int, place: Callable[[Worker | None], Awaitable[Worker]], worker: Worker | None = None) -> None:
        self._kind, self._place = kind, place
        self.env = self
        self.seconds = 60.0
        self.worker: Worker | None = None
        self._key = 0, 0
        if worker:
            self._move(worker)
        self.status = Status()

    @property
    def usable(self) -> bool:
        """True if another episode may be played here. False if the worker has ended, or has to end because a step hangs."""
        return self.worker is None or self.worker.usable()

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode, within `seconds` plus 60 for the start of the environment."""
        return await self._begun(("reset", seed, options), seconds)

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Continue from a snapshot, within `seconds` plus 60 for the start of the environment."""
        return await self._begun(("restore", state, seed), seconds)

    async def _begun(self, request: "Request", seconds: float) -> tuple[str, Info]:
        self.seconds = seconds
        self._move(await self._place(self.worker))
        return self._update_status(await self._ask(request, seconds + 60))  # plus 60 for its start

    async def step(self, action: str, seconds: float) -> StepResult:
        """Execute one action."""
        return self._update_status(await self._ask(("step", action), seconds))

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything that `restore` needs to continue from here."""
        return await self._ask(("snapshot",), seconds)

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`, computed in the environment's worker process."""
        return await self._ask(("consult", function, arguments), self.seconds)

    async def task(self, named: object, seed: int, seconds: float) -> Task | str:
        """Return the task with this id or number (None: drawn by the seed), or the reason why there is none."""
        worker = await self._place(self.worker)
        if worker is not self.worker:
            self._move(worker)
            await self._ask(("made",), seconds + 60)  # plus 60 for its start
        return await self._ask(("task", named, seed), seconds)

    async def check(self, seconds: float) -> None:
        """Check the health of the services and tools that the environment needs."""
        await self._ask(("check",), seconds)

    def close(self) -> None:
        """Close the environment."""
        worker, self.worker = self.worker, None
        if worker:
            worker.hosted -= 1
            worker.release(self._key)

    def _move(self, worker: Worker) -> None:
        if worker is self.worker:
            return
        self.close()
        self.worker = worker
        worker.hosted += 1
        worker.last += 1
        self._key = self._kind, worker.last

    async def _ask(self, request: "Request", seconds: float) -> Any:
        if self.worker is None:
            raise Fault(f"{request[0]} before an episode was begun")
        return await self.worker.ask(self._key, request, seconds)

    def _update_status(self, answer: "tuple[Any, Status | None]") -> Any:
        result, status = answer
        if status:
            self.status = status
        return result
