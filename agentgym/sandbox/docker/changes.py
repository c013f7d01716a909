"""A hash of a container's state: programs' changes to it; None while a process outlives its command."""

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
"""Maximum bytes of changed files read for one hash; beyond it the hash is None."""
SECONDS = 20.0
"""Time limit for one hash; beyond it the hash is None."""
NONE: Mapping[str, str] = MappingProxyType({})
DAEMONS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/dev", "/proc", "/sys")
"""Paths the daemon adds to every container."""


class Changes:
    """Watches one container.

    Files in memory (the working folder, /tmp, /dev/shm) are walked; of the image's files only those the daemon reports as
    changed are read. Times of files and paths in `without` are ignored. The hash covers the container's environment
    variables and the additional `variables` of the task.
    """

    def __init__(self, sandbox: Docker, without: Sequence[str], variables: Mapping[str, str] = NONE) -> None:
        self._sandbox, self._without = sandbox, [*DAEMONS, *without]
        self._source = "import sys\nsys.path.remove('/')\n" + PROGRAM.read_text(encoding="utf-8")
        self._variables = sorted({**sandbox.environment, **variables}.items())
        self._own: list[list[int]] | None = None
        self._roots = ["/dev/shm"] if sandbox.spec.writable else ["/dev/shm", "/tmp", sandbox.work]

    def key(self) -> str | None:
        """Return the hash of the current state; None if it cannot be read.

        Processes at the first call are the environment's own; every later one outlives a command. Raises SandboxFault if the
        container is gone.
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
        """Return the paths that differ from the image, as reported by the daemon."""
        if not self._sandbox.spec.writable:
            return []
        api = self._sandbox.daemon.client.api
        with faults():
            found: list[dict[str, Any]] = api.diff(self._sandbox.container) or []
        return [str(change["Path"]) for change in found]
