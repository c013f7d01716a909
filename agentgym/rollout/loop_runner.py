"""An event loop that persists between calls, for callers without a loop whose environments stay open between calls."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def result_of(loop: asyncio.Runner, work: Coroutine[object, object, T]) -> T:
    """Run a coroutine on a loop and return its result.

    The loop's task itself ends without a result: the runner's Ctrl-C handler refers to that task, and `signal.signal` and
    `signal.getsignal` format the handler in each call, which takes long if the result is a list of episodes.
    """
    results: list[T] = []

    async def stored() -> None:
        results.append(await work)

    loop.run(stored())
    return results[0]


class LoopRunner:
    """Runs coroutines one by one on its own loop: in the caller's thread, or in another if the caller's has a running loop.

    Worker processes and engines belong to the event loop that first used them.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._thread: ThreadPoolExecutor | None = None

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine and return its result."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._thread is None:
                return result_of(self._runner, work)
        self._thread = self._thread or ThreadPoolExecutor(1)
        return self._thread.submit(result_of, self._runner, work).result()

    def close(self, first: Callable[[], None]) -> None:
        """Call `first`, which frees objects that belong to the loop, then close the loop."""
        first()
        if self._thread is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
        else:
            self._runner.close()
