"""The user's Ctrl-C told apart from a KeyboardInterrupt that an environment or an agent raises itself."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast


class _Watch:
    """Notes each SIGINT and passes it on; blocks may overlap, as collections on one event loop do."""

    def __init__(self) -> None:
        self.blocks = 0
        self.came = False
        self._before: Any = None

    def begin(self) -> None:
        if not self.blocks:
            self.came, self._before = False, signal.getsignal(signal.SIGINT)
            if callable(self._before):
                signal.signal(signal.SIGINT, self._note)
        self.blocks += 1

    def end(self) -> None:
        self.blocks -= 1
        if not self.blocks and signal.getsignal(signal.SIGINT) == self._note:  # else somebody set another meanwhile
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        cast("Callable[[int, FrameType | None], object]", self._before)(number, frame)


_watch = _Watch()


@contextmanager
def interrupts_watched() -> Generator[None]:
    """Note each Ctrl-C in the block, so that `interrupted` can tell it from what other code raises."""
    if threading.current_thread() is not threading.main_thread():  # no signal arrives there
        yield
        return
    _watch.begin()
    try:
        yield
    finally:
        _watch.end()


def interrupted() -> bool:
    """Return whether a KeyboardInterrupt raised here may be the user's: in the main thread, unless no SIGINT was noted."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return not _watch.blocks or _watch.came
