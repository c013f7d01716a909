"""A permanent thread that starts all sandboxes: Linux kills a sandbox when the thread that started it ends."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_jobs: "SimpleQueue[tuple[Callable[[], object], Future[Any]]] | None" = None
_lock = threading.Lock()


def start(work: Callable[[], T]) -> T:
    """Call `work` in the permanent thread, and return its result."""
    global _jobs
    with _lock:
        if _jobs is None:
            _jobs = SimpleQueue()
            threading.Thread(target=_serve, args=(_jobs,), name="sandboxes", daemon=True).start()
    done: Future[T] = Future()
    _jobs.put((work, done))
    return done.result()


def _serve(queue: "SimpleQueue[tuple[Callable[[], object], Future[object]]]") -> None:
    while True:
        work, done = queue.get()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        del work, done  # they would keep the result alive until the next call


def _forget() -> None:
    """Reset the state in a forked process, in which the thread does not run."""
    global _jobs, _lock
    _jobs, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
