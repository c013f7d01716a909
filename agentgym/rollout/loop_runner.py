"""An event loop that stands between calls, for callers without one whose environments outlive a call."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class LoopRunner:
    """Runs coroutines one after another on one loop: in the caller's thread, or, where a loop runs there, in one beside it.

    Worker processes and engines belong to the loop that they were first used in.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._thread: ThreadPoolExecutor | None = None

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Return what a coroutine returns."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._thread is None:
                return self._runner.run(work)
        self._thread = self._thread or ThreadPoolExecutor(1)
        return self._thread.submit(self._runner.run, work).result()

    def close(self, first: Callable[[], None]) -> None:
        """Call what frees what belongs to the loop, and end it."""
        first()
        if self._thread is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
        else:
            self._runner.close()
