"""Hash of a container's state, as changed by programs; None while a process outlives the command that started it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentgym.sandbox.docker.daemon import faults
from agentgym.sandbox.docker.sandbox import Docker
from agentgym.sandbox.protocol import ExitReason

PROGRAM = Path(__file__).parents[1] / "inside" / "state.py"
READ = 256 << 20
"""Maximum bytes of changed files to read for one hash; if there are more, the hash is None."""
SECONDS = 20.0
"""Time limit in seconds for one hash; if it takes longer, the hash is None."""
NONE: Mapping[str, str] = MappingProxyType({})
DAEMONS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/dev", "/proc", "/sys")
"""Paths that the daemon adds to every container."""


class Changes:
    """Computes the state hash of one container.

    The hash covers files in memory (/dev/shm and, if the image is read-only, /tmp and the working folder), the image's
    files that the daemon reports as changed, the container's environment variables, and the additional `variables` of the
    task. It ignores file times and the paths in `without`.
    """

    def __init__(self, sandbox: Docker, without: Sequence[str], variables: Mapping[str, str] = NONE) -> None:
        self._sandbox, self._without = sandbox, [*DAEMONS, *without]
        self._source = "import sys\nsys.path.remove('/')\n" + PROGRAM.read_text(encoding="utf-8")
        self._variables = sorted({**sandbox.environment, **variables}.items())
        self._own: list[list[int]] | None = None
        self._roots = ["/dev/shm"] if sandbox.spec.writable else ["/dev/shm", "/tmp", sandbox.work]

    def key(self) -> str | None:
        """Return the hash of the current state; None if it cannot be read.

        Processes that run at the first call belong to the environment. A process that appears later has outlived its
        command, so that the hash is None. Raises SandboxFault if the container is gone.
        """
        question = {"roots": self._roots, "paths": self._changed(), "without": self._without, "most": READ}
        result = self._sandbox.looked(self._source + "\nmain()\n", json.dumps(question).encode(), SECONDS)
        if result.reason != ExitReason.EXIT:
            return None
        try:
            answer: dict[str, Any] = json.loads(result.stdout)
            key, processes = answer["key"], [*answer["processes"], *answer["after"]]
        except (ValueError, KeyError, TypeError):
            return None
        if self._own is None:
            self._own = processes
        if any(process not in self._own for process in processes):
            return None
        if not key:
            return None
        state = f"{key} {self._variables!r}".encode()
        return hashlib.blake2b(state, digest_size=16).hexdigest()

    def _changed(self) -> list[str]:
        """Return the paths that differ from the image, as reported by the daemon; empty for a read-only image."""
        if not self._sandbox.spec.writable:
            return []
        api = self._sandbox.daemon.client.api
        with faults():
            found: list[dict[str, Any]] = api.diff(self._sandbox.container) or []
        return [str(change["Path"]) for change in found]
