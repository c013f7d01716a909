"""What engines over servers share: requests by session, which hang up when they are aborted; how all is said to vLLM."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias, TypeVar

from agentgym.engines.checked import CheckedIds
from agentgym.engines.protocol import Sampling
from agentgym.errors import BadConfig

T = TypeVar("T")
AnyTask: TypeAlias = asyncio.Task[Any]
LARGEST_ID = 2**31 - 1
"""No vocabulary comes near it; tokenizers and tensors take no more."""


class AdmissionGate:
    """Whether requests start: not while somebody paused, nor while pauses and updates wait for requests to end.

    One of these that is given up opens nothing that another one holds closed.
    """

    def __init__(self) -> None:
        self._paused = False
        self._holds = 0
        """Pauses that wait for requests to end, and updates."""

    @property
    def paused(self) -> bool:
        """Whether `pause` was called last, and not `resume`."""
        return self._paused

    @property
    def is_open(self) -> bool:
        """Whether requests start."""
        return not (self._paused or self._holds)

    async def drained(self) -> None:
        """Wait until no request is under way."""
        raise NotImplementedError

    def _tell(self) -> None:
        """Let requests look again whether they may start."""

    @contextmanager
    def _held(self) -> Generator[None]:
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._tell()

    async def pause(self) -> None:
        """Let running requests finish and start no new ones; given up meanwhile, it changes nothing."""
        with self._held():
            await self.drained()
            self._paused = True

    async def resume(self) -> None:
        """Start requests again, unless an update goes on."""
        self._paused = False
        self._tell()


class InFlight(AdmissionGate):
    """Who may sample when: requests by session, pauses, and updates, which are alone.

    Whoever asks while requests do not start waits, and can be aborted there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[AnyTask, str] = {}
        """The session of every request that waits or runs."""
        self._running: set[AnyTask] = set()
        """The requests that started and have not ended, those of callers who have gone included."""
        self._aborted: set[AnyTask] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._checked = CheckedIds(LARGEST_ID + 1)
        self._alone = False

    async def entered(self) -> None:
        """Wait until requests start."""
        while not self.is_open:
            await self._changed()

    async def _changed(self) -> None:
        """Wait until something is let go of; of each event loop by itself."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(None)

    @asynccontextmanager
    async def updating(self) -> AsyncGenerator[None]:
        """Be alone: no request runs within, and no other update."""
        with self._held():
            while self._alone:
                await self._changed()
            self._alone = True
            try:
                await self.drained()
                yield
            finally:
                self._alone = False

    def check(self, session: str, ids: list[int]) -> None:
        """Raise BadConfig for what is no prompt; of one that goes on from the last only what is new is looked at."""
        if not ids or self._checked.wrong(session, ids) is not None:
            raise no_prompt(ids)

    async def asked(self, request: Callable[[], Coroutine[object, object, T]], session: str) -> T | None:
        """Start a session's request once requests start, and return what it brings; None where it was aborted."""
        task = asyncio.get_running_loop().create_task(self._started(request))
        self._sessions[task] = session
        try:
            await asyncio.wait([task])
            aborted = task.cancelled() or (task in self._aborted and task.exception() is not None)
            return None if aborted else task.result()
        finally:
            task.cancel()  # nothing where it is done; else the caller was cancelled, and the server sees us hang up
            task.add_done_callback(retrieve_exception)
            del self._sessions[task]
            self._aborted.discard(task)

    async def _started(self, request: Callable[[], Coroutine[object, object, T]]) -> T:
        await self.entered()
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await request()
        finally:
            self._running.discard(task)

    async def to_its_end(self, request: Coroutine[object, object, T]) -> T:
        """Return what a request brings; one that was sent counts as running until it is answered, whoever has gone."""
        task = asyncio.get_running_loop().create_task(request)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(retrieve_exception)
        return await asyncio.shield(task)

    def abort(self, session: str) -> None:
        """Hang up on the session's requests; a server that notices frees what they hold."""
        self._checked.forget(session)
        self._hang_up(self.of(session))

    def of(self, session: str) -> list[AnyTask]:
        """Return a session's requests, those that wait for their start included."""
        return [task for task, owner in self._sessions.items() if owner == session]

    async def drained(self) -> None:
        """Wait until no request is under way."""
        while running := [task for task in self._running if goes_on(task)]:
            await asyncio.wait(running)

    def hang_up(self) -> None:
        """Hang up on every request, also on those that wait for their start."""
        self._hang_up(list(self._sessions))

    def _hang_up(self, tasks: Sequence[AnyTask]) -> None:
        for task in tasks:
            if goes_on(task):
                self._aborted.add(task)
                task.cancel()


def retrieve_exception(task: AnyTask) -> None:
    """Keep asyncio from complaining of an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def goes_on(task: AnyTask | None) -> bool:
    """Whether a task goes on; one of an event loop that has ended does not."""
    return task is not None and not task.done() and not task.get_loop().is_closed()


def check_prompt(ids: list[int]) -> None:
    """Raise BadConfig for what is no prompt."""
    if not ids or min(ids) < 0 or max(ids) > LARGEST_ID:
        raise no_prompt(ids)


def no_prompt(ids: list[int]) -> BadConfig:
    """Return the error for what is no prompt."""
    return BadConfig(f"the prompt is {ids[:20]}; expected at least one token id, each 0 to {LARGEST_ID}")


def check_scored(ids: list[int], context: int) -> None:
    """Raise BadConfig for what a server cannot score: each prompt is sampled one token after it."""
    check_prompt(ids)
    if len(ids) >= context:
        raise BadConfig(f"{len(ids)} tokens to score; expected fewer than the context of {context}")


def in_full(sampling: Sampling, limit: int) -> dict[str, object]:
    """Return sampling parameters in which everything is said, so that no default of a vLLM server's takes part."""
    return {
        "max_tokens": limit,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": sampling.seed % 2**63,
        "stop_token_ids": list(sampling.stop_ids),
        "ignore_eos": True,  # only what the caller names ends a completion
        "skip_special_tokens": False,
    }
