"""Tells the user's Ctrl-C from a KeyboardInterrupt that an environment or an agent raises."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast


class _Watch:
    """Records each SIGINT and calls the previous handler. Blocks may overlap, as with several collections on one loop."""

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
        if not self.blocks and signal.getsignal(signal.SIGINT) == self._note:  # else another handler was set in the meantime
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        cast("Callable[[int, FrameType | None], object]", self._before)(number, frame)


_watch = _Watch()


@contextmanager
def interrupts_watched() -> Generator[None]:
    """Record each Ctrl-C in the block, so that `interrupted` can tell it from other code's KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():  # no signal arrives in other threads
        yield
        return
    _watch.begin()
    try:
        yield
    finally:
        _watch.end()


def interrupted() -> bool:
    """Return True if a KeyboardInterrupt here may be the user's Ctrl-C, rather than one raised by other code."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return not _watch.blocks or _watch.came
