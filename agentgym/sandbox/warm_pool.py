"""A warm pool: sandboxes started ahead of time, each used once."""

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from agentgym.sandbox.protocol import Limits, Sandbox, sandbox

AHEAD = 1
"""Number of idle sandboxes to have ready for each kind."""
AT_ONCE = 2
"""Maximum number of sandboxes that start at the same time."""
KINDS = 16
"""Maximum number of kinds with idle sandboxes; beyond it, the sandboxes of the least recently used kind are closed."""
OFTEN = 2
"""Number of requests for a rare kind after which it gets idle sandboxes."""

_waiting: dict[str, deque[Future[Sandbox]]] = {}
"""Idle sandboxes by kind; the most recently used kind is last."""
_times: dict[int, int] = {}
"""Number of requests for each kind, by hash of the kind."""
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
    """Return an unused sandbox, which the caller must close, and start another one for the next request.

    A sandbox's kind is the combination of arguments. A `rare` kind, such as one per task, gets idle sandboxes only after
    `OFTEN` requests. Raises BadConfig if this machine lacks a requirement of the backend, SandboxFault if the sandbox does
    not start.
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
    """Reset the pool in a forked process, since the idle sandboxes belong to the parent."""
    global _waiting, _times, _lock, _makers
    _waiting, _times, _lock, _makers = {}, {}, threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
