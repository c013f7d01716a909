"""Results of async functions of environments: `step` waits for them, even inside a running event loop."""

import asyncio
import concurrent.futures
import inspect
import os
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import cast

from agentgym.errors import Fault, Reason

_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Event loop by process id. A forked child has its own entry, because the parent's loop thread does not exist there."""
_lock = threading.Lock()
GRACE = 1.0  # seconds for a cancelled function to clean up, before its loop is given up


def awaited(value: object, seconds: float, what: str) -> object:
    """Return `value`; if it is awaitable, wait up to `seconds` and return its result. `what` names it in messages.

    All awaitables of a process run in one event loop on a separate thread, so they can share clients that belong to a
    loop.

    Raises:
        Fault: the awaitable took longer than `seconds`.
        TimeoutError: the awaitable raised it.
    """
    if not inspect.isawaitable(value):
        return value
    loop = _loop()
    future = asyncio.run_coroutine_threadsafe(_within(cast("Awaitable[object]", value), seconds, what), loop)
    try:
        return future.result(seconds + GRACE)
    except concurrent.futures.TimeoutError:
        if future.done():  # raised by the function itself
            raise
        _give_up(loop)  # it blocks the loop: the next caller gets another
        raise Fault(_late(what, seconds), reason=Reason.TIMEOUT) from None
    except BaseException:
        future.cancel()  # Ctrl-C: the function ends too
        raise


async def _within(value: Awaitable[object], seconds: float, what: str) -> object:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await value
    except TimeoutError:
        if limit.expired():
            raise Fault(_late(what, seconds), reason=Reason.TIMEOUT) from None
        raise


def _late(what: str, seconds: float) -> str:
    return f"{what} did not end within {seconds:g} s (tool_seconds)"


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="async tools", daemon=True).start()
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; a SystemExit or KeyboardInterrupt in one function does not stop it for the others."""
    while True:
        with suppress(SystemExit, KeyboardInterrupt):  # the function's caller gets them too; Ctrl-C goes to the main thread
            loop.run_forever()
            return


def _give_up(loop: asyncio.AbstractEventLoop) -> None:
    with _lock:
        if _loops.get(os.getpid()) is loop:
            del _loops[os.getpid()]
    loop.call_soon_threadsafe(loop.stop)
