"""One private event-loop thread per process, in which everything of the browser happens."""

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
        """Return what a coroutine returns; one that takes longer is cancelled, and Fault says so."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            raise Fault(f"the browser did not answer within {seconds:g} s", reason=Reason.TIMEOUT) from None
        finally:
            future.cancel()  # also where the caller was interrupted

    def spawn(self, coroutine: Coroutine[object, object, object]) -> None:
        """Start a coroutine nobody waits for."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop)


loop = PerProcess(Loop)
"""Returns the loop of this process."""
