"""Sandboxes made ahead of time, each used once: an episode need not wait for one to start."""

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from agentgym.sandbox.protocol import Limits, Sandbox, sandbox

AHEAD = 1
"""Sandboxes of a kind that wait, beyond those in use."""
AT_ONCE = 2
"""Sandboxes that are made at the same time."""

_waiting: dict[str, deque[Future[Sandbox]]] = {}
_lock = threading.Lock()
_makers: ThreadPoolExecutor | None = None


def take(
    backend: str = "bubblewrap",
    *,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> Sandbox:
    """Return a sandbox that nobody has used; whoever takes it closes it.

    BadConfig where this machine has not what the backend takes; SandboxFault where the sandbox cannot be started.
    """
    global _makers
    asked: dict[str, Any] = {"limits": limits, "packages": tuple(packages), **(options or {})}
    kind = repr((backend, asked))
    with _lock:
        _makers = _makers or ThreadPoolExecutor(AT_ONCE, "making-sandboxes")
        line = _waiting.setdefault(kind, deque())
        while len(line) < 1 + AHEAD:
            line.append(_makers.submit(sandbox, backend, **asked))
        first = line.popleft()
    try:
        return first.result()
    except BaseException:
        with _lock:  # what waits behind a failure would fail in the same way: the next caller tries anew
            line.clear()
        raise


def _forget() -> None:
    """Begin anew in a forked process: what waits is the other's."""
    global _waiting, _lock, _makers
    _waiting, _lock, _makers = {}, threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
