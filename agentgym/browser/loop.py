"""One private event-loop thread per process for all browser work."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

from agentgym.browser.process import PerProcess
from agentgym.errors import Fault, Reason

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="agentgym-browser", daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[object, object, T], seconds: float) -> T:
        """Return the result of a coroutine, waiting at most `seconds`.

        Raises:
            Fault: the coroutine took longer and was cancelled.
        """
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            raise Fault(f"the browser did not answer within {seconds:g} s", reason=Reason.TIMEOUT) from None
        finally:
            future.cancel()  # also when the caller is interrupted

    def spawn(self, coroutine: Coroutine[object, object, object]) -> None:
        """Start a coroutine without waiting for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop)


loop = PerProcess(Loop)
"""Returns this process's event loop."""
