"""What engines over servers share: requests by session, which hang up when they are aborted; how all is said to vLLM."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentgym.engines import Sampling
from agentgym.engines.checked import CheckedIds
from agentgym.errors import BadConfig

T = TypeVar("T")
LARGEST_ID = 2**31 - 1
"""No vocabulary comes near it; tokenizers and tensors take no more."""


class UnderWay:
    """The requests of an engine that are under way, with their sessions."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], str] = {}
        self._checked = CheckedIds(LARGEST_ID + 1)
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        """Whether requests start."""
        return self._open.is_set()

    async def entered(self) -> None:
        """Wait until requests start."""
        while not self._open.is_set():  # it may be closed again before one who waited for it has his turn
            await self._open.wait()

    async def pause(self) -> None:
        """Let running requests finish and start no new ones; given up meanwhile, it changes nothing."""
        was_open = self.is_open
        if was_open:
            self._open = asyncio.Event()  # which belongs to the first event loop that it is waited for in
        try:
            await self.drained()
        except asyncio.CancelledError:
            if was_open:
                self._open.set()
            raise

    async def resume(self) -> None:
        """Start requests again."""
        self._open.set()

    def check(self, session: str, ids: list[int]) -> None:
        """Raise BadConfig for what is no prompt; of one that goes on from the last only what is new is looked at."""
        if not ids or self._checked.wrong(session, ids) is not None:
            raise no_prompt(ids)

    async def asked(self, request: Coroutine[object, object, T], session: str) -> T | None:
        """Run a session's request and return what it brings; None where it was aborted."""
        task = asyncio.get_running_loop().create_task(request)
        self._running[task] = session
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()  # nothing where it is done; else the caller was cancelled, and the server sees us hang up
            del self._running[task]
        return None if task.cancelled() else task.result()

    def abort(self, session: str) -> None:
        """Hang up on the session's requests; a server that notices frees what they hold."""
        self._checked.forget(session)
        for task, owner in self._running.items():
            if owner == session:
                task.cancel()

    async def drained(self) -> None:
        """Wait until no request is under way."""
        while self._running:
            await asyncio.wait(list(self._running))
            await asyncio.sleep(0)  # those who wait for them take them out

    def hang_up(self) -> None:
        """Hang up on every request."""
        for task in self._running:
            if goes_on(task):
                task.cancel()


def goes_on(task: "asyncio.Task[Any] | None") -> bool:
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
