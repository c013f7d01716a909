"""A warm pool: sandboxes started ahead of time, each used once."""

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from agentgym.sandbox.protocol import Limits, Sandbox, sandbox

AHEAD = 1
"""Number of idle sandboxes per kind, in addition to those in use."""
AT_ONCE = 2
"""Maximum sandboxes started at the same time."""
KINDS = 16
"""Maximum kinds with idle sandboxes; those of the least recently used kind are closed."""
OFTEN = 2
"""Number of requests for a rare kind before one is kept ready."""

_waiting: dict[str, deque[Future[Sandbox]]] = {}
"""Idle sandboxes by kind, the most recently used last."""
_times: dict[int, int] = {}
"""Number of requests by hash of the kind."""
_lock = threading.Lock()
_makers: ThreadPoolExecutor | None = None


def take(
    backend: str = "bubblewrap",
    *,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    rare: bool = False,
) -> Sandbox:
    """Return an unused sandbox; the caller must close it.

    A `rare` kind gets idle sandboxes only after several requests, since many kinds are used once. Raises BadConfig if this
    machine lacks a requirement of the backend, SandboxFault if the sandbox does not start.
    """
    global _makers
    options_used: dict[str, Any] = {"limits": limits, "packages": tuple(packages), **(options or {})}
    kind = repr((backend, options_used))
    with _lock:
        _makers = _makers or ThreadPoolExecutor(AT_ONCE, "making-sandboxes")
        line = _waiting[kind] = _waiting.pop(kind, None) or deque()
        _times[hash(kind)] = times = _times.get(hash(kind), 0) + 1
        while len(line) < 1 + (AHEAD if not rare or times > OFTEN else 0):
            line.append(_makers.submit(sandbox, backend, **options_used))
        first = line.popleft()
        oldest = [_waiting.pop(name) for name in list(_waiting)[:-KINDS]]
    for future in (future for waiting in oldest for future in waiting):
        future.add_done_callback(_close)
    try:
        return first.result()
    except BaseException:
        with _lock:  # drop the queue, which would fail the same way; the next caller retries
            line.clear()
        raise


def _close(made: "Future[Sandbox]") -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


def _forget() -> None:
    """Reset a forked process; the idle sandboxes are its parent's."""
    global _waiting, _times, _lock, _makers
    _waiting, _times, _lock, _makers = {}, {}, threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
