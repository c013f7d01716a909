"""Per-process singletons."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A callable that returns this process's instance, created by `make` on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def __call__(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = self.make()
            return self._made

    def _forget(self) -> None:
        """Drop the instance in a forked child, so that the child creates a new one: it lacks its parent's threads."""
        self._made: T | None = None
        self._lock = threading.Lock()
