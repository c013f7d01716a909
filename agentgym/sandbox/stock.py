"""Jails made ahead of time, each used once: an episode need not wait for one to start."""

import atexit
import contextlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from agentgym.sandbox.protocol import Limits, Sandbox, sandbox

AHEAD = 1
"""Jails of a kind that wait, beyond those in use."""

_waiting: dict[str, deque[Future[Sandbox]]] = {}
_lock = threading.Lock()
_maker: ThreadPoolExecutor | None = None
"""One thread that lasts: the kernel ends a jail together with the thread that started it."""


def take(
    backend: str = "bubblewrap",
    *,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Sandbox:
    """Return a jail that nobody has used; whoever takes it closes it.

    BadConfig where this machine has not what the backend takes; SandboxFault where the jail cannot be started.
    """
    asked = {"limits": limits, "packages": tuple(packages), **(options or {})}
    kind = repr((backend, asked))
    with _lock:
        line = _waiting.setdefault(kind, deque())
        while len(line) < 1 + AHEAD:
            line.append(_executor().submit(sandbox, backend, **asked))
        first = line.popleft()
    try:
        return first.result()
    except BaseException:
        with _lock:  # what waits behind a failure would fail in the same way: the next caller tries anew
            _discard(line)
        raise


def _executor() -> ThreadPoolExecutor:
    global _maker
    if _maker is None:
        _maker = ThreadPoolExecutor(1, "jails")
        atexit.register(_end)
    return _maker


def _end() -> None:
    with _lock:
        for line in _waiting.values():
            _discard(line)


def _discard(line: deque[Future[Sandbox]]) -> None:
    while line:
        waiting = line.popleft()
        if not waiting.cancel():
            with contextlib.suppress(Exception):
                waiting.result().close()
