"""One private event-loop thread per process, in which everything of the browser happens."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from agentgym.errors import Fault

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="agentgym-browser", daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return what a coroutine returns; one that takes longer is cancelled, and Fault says so."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            raise Fault(f"the browser did not answer within {seconds:g} s", reason="timeout") from None
        finally:
            future.cancel()  # also where the caller was interrupted

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Start a coroutine nobody waits for."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop)


_made: Loop | None = None
_lock = threading.Lock()


def loop() -> Loop:
    """Return the loop of this process."""
    global _made
    with _lock:
        if _made is None:
            _made = Loop()
        return _made


def _forget() -> None:
    """A forked child has none of its parent's threads: it makes its own."""
    global _made, _lock
    _made, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
