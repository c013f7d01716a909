"""Shared parts of engines that send requests to a server: pauses, aborts by session, and sampling parameters for vLLM."""

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
"""Maximum token id that tokenizers and tensors accept, far above any vocabulary."""


class AdmissionGate:
    """Controls when requests may start: not during a pause, nor while a pause or an update waits for running requests.

    Cancelling one pause or update does not let requests start while another still blocks them.
    """

    def __init__(self) -> None:
        self._paused = False
        self._holds = 0
        """Number of updates in progress and of pauses that wait for running requests."""

    @property
    def paused(self) -> bool:
        """True from the end of `pause` until `resume`."""
        return self._paused

    @property
    def is_open(self) -> bool:
        """True if requests may start."""
        return not (self._paused or self._holds)

    async def drained(self) -> None:
        """Wait until no request is running.

        Raises:
            NotImplementedError: a subclass has to implement it.
        """
        raise NotImplementedError

    def _notify(self) -> None:
        """Wake waiting requests, so that they check again if they may start; does nothing here."""

    @contextmanager
    def _blocked(self) -> Generator[None]:
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._notify()

    async def pause(self) -> None:
        """Let running requests finish and start no new ones; if cancelled, nothing changes."""
        with self._blocked():
            await self.drained()
            self._paused = True

    async def resume(self) -> None:
        """Allow requests to start again, after the current update if there is one."""
        self._paused = False
        self._notify()


class InFlight(AdmissionGate):
    """Coordinates sampling: requests by session, pauses, and exclusive updates.

    A caller waits while requests may not start, and can be aborted while it waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[AnyTask, str] = {}
        """Session of every waiting or running request, by its task."""
        self._running: set[AnyTask] = set()
        """Requests that have started and not ended, including those whose caller was cancelled."""
        self._aborted: set[AnyTask] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._checked = CheckedIds(LARGEST_ID + 1)
        self._alone = False

    async def entered(self) -> None:
        """Wait until requests may start."""
        while not self.is_open:
            await self._changed()

    async def _changed(self) -> None:
        """Wait for the next change of state, which may come from another event loop."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(None)

    @asynccontextmanager
    async def updating(self) -> AsyncGenerator[None]:
        """Run the block exclusively: no request and no other update is running."""
        with self._blocked():
            while self._alone:
                await self._changed()
            self._alone = True
            try:
                await self.drained()
                yield
            finally:
                self._alone = False

    def check(self, session: str, ids: list[int]) -> None:
        """Check a prompt; if it extends the session's last prompt, only the new ids are checked.

        Raises:
            BadConfig: the prompt is empty or contains an invalid id.
        """
        if not ids or self._checked.wrong(session, ids) is not None:
            raise BadConfig(no_prompt(ids))

    async def run_request(self, request: Callable[[], Coroutine[object, object, T]], session: str) -> T | None:
        """Wait until requests may start, run the session's request, and return its result; None if it was aborted."""
        task = asyncio.get_running_loop().create_task(self._started(request))
        self._sessions[task] = session
        try:
            await asyncio.wait([task])
            aborted = task.cancelled() or (task in self._aborted and task.exception() is not None)
            return None if aborted else task.result()
        finally:
            task.cancel()  # no effect if done; else the caller was cancelled, and the connection closes
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
        """Await a sent request. It counts as running until it is answered, even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(request)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(retrieve_exception)
        return await asyncio.shield(task)

    def abort(self, session: str) -> None:
        """Cancel the session's requests; a server that notices the disconnect frees their memory."""
        self._checked.forget(session)
        self._hang_up(self.of(session))

    def of(self, session: str) -> list[AnyTask]:
        """Return the tasks of a session's requests, including waiting ones."""
        return [task for task, owner in self._sessions.items() if owner == session]

    async def drained(self) -> None:
        """Wait until no request is running."""
        while running := [task for task in self._running if goes_on(task)]:
            await asyncio.wait(running)

    def hang_up(self) -> None:
        """Cancel every request, including waiting ones."""
        self._hang_up(list(self._sessions))

    def _hang_up(self, tasks: Sequence[AnyTask]) -> None:
        for task in tasks:
            if goes_on(task):
                self._aborted.add(task)
                task.cancel()


def retrieve_exception(task: AnyTask) -> None:
    """Mark an exception as retrieved, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


def goes_on(task: AnyTask | None) -> bool:
    """Return True if a task is not done and its event loop is open."""
    return task is not None and not task.done() and not task.get_loop().is_closed()


def check_prompt(ids: list[int]) -> None:
    """Check a prompt.

    Raises:
        BadConfig: the prompt is empty or contains an invalid id.
    """
    if not ids or min(ids) < 0 or max(ids) > LARGEST_ID:
        raise BadConfig(no_prompt(ids))


def no_prompt(ids: list[int]) -> str:
    """Return the error message for an invalid prompt."""
    return f"the prompt is {ids[:20]}; expected at least one token id, each 0 to {LARGEST_ID}"


def check_scored(ids: list[int], context: int) -> None:
    """Check that a text fits a server's context together with the one token that scoring has to sample.

    Raises:
        BadConfig: the text is invalid or too long.
    """
    check_prompt(ids)
    if len(ids) >= context:
        raise BadConfig(f"{len(ids)} tokens to score; expected fewer than the context of {context}")


def in_full(sampling: Sampling, limit: int) -> dict[str, object]:
    """Return every sampling parameter explicitly, so that no default of a vLLM server applies; `limit` is `max_tokens`."""
    return {
        "max_tokens": limit,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": sampling.seed % 2**63,
        "stop_token_ids": list(sampling.stop_ids),
        "ignore_eos": True,  # only the caller's stop tokens end a completion
        "skip_special_tokens": False,
    }
