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
KINDS = 16
"""Kinds of which some wait; those of the kind that was asked for the longest ago are closed."""
OFTEN = 2
"""Times that a rare kind must have been asked for before one waits."""

_waiting: dict[str, deque[Future[Sandbox]]] = {}
"""By kind, the one asked for last at the end."""
_times: dict[int, int] = {}
"""How often a kind, by its hash, was asked for."""
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
    """Return a sandbox that nobody has used; whoever takes it closes it. Of a `rare` kind, none waits before it was asked
    for several times: many kinds are used once.

    BadConfig where this machine has not what the backend takes; SandboxFault where the sandbox cannot be started.
    """
    global _makers
    asked: dict[str, Any] = {"limits": limits, "packages": tuple(packages), **(options or {})}
    kind = repr((backend, asked))
    with _lock:
        _makers = _makers or ThreadPoolExecutor(AT_ONCE, "making-sandboxes")
        line = _waiting[kind] = _waiting.pop(kind, None) or deque()
        _times[hash(kind)] = times = _times.get(hash(kind), 0) + 1
        while len(line) < 1 + (AHEAD if not rare or times > OFTEN else 0):
            line.append(_makers.submit(sandbox, backend, **asked))
        first = line.popleft()
        oldest = [_waiting.pop(name) for name in list(_waiting)[:-KINDS]]
    for future in (future for waiting in oldest for future in waiting):
        future.add_done_callback(_close)
    try:
        return first.result()
    except BaseException:
        with _lock:  # what waits behind a failure would fail in the same way: the next caller tries anew
            line.clear()
        raise


def _close(made: "Future[Sandbox]") -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


def _forget() -> None:
    """Begin anew in a forked process: what waits is the other's."""
    global _waiting, _times, _lock, _makers
    _waiting, _times, _lock, _makers = {}, {}, threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
