"""The state of a container as one hash: what programs changed in it, and nothing while one of them outlives its command."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.sandbox.docker.daemon import faults
from agentgym.sandbox.docker.sandbox import Docker
from agentgym.sandbox.protocol import ExitReason

PROGRAM = Path(__file__).parents[1] / "inside" / "state.py"
READ = 256 << 20
"""Bytes of changed files that are read for one hash; with more there is none."""
SECONDS = 20.0
"""For one hash; where it takes longer there is none."""
DAEMONS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/dev", "/proc", "/sys")
"""What the daemon puts into every container."""


class Changes:
    """Watches one container.

    What is in memory (the working folder, /tmp, /dev/shm) is walked; of the image's files only those that the daemon says
    were changed. Times of files do not count, nor what lies in `without`.
    """

    def __init__(self, sandbox: Docker, without: Sequence[str]) -> None:
        self._sandbox, self._without = sandbox, [*DAEMONS, *without]
        self._source = "import sys\nsys.path.remove('/')\n" + PROGRAM.read_text(encoding="utf-8")
        self._own: list[list[int]] | None = None
        self._roots = ["/dev/shm"] if sandbox.asked.writable else ["/dev/shm", "/tmp", sandbox.work]

    def key(self) -> str | None:
        """Return the hash of the present state; None where it cannot be read.

        Processes that there are when this is called first belong to whoever runs here, and every later one to a command
        that it outlives. SandboxFault where the container is gone.
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
        return str(key) if key else None

    def _changed(self) -> list[str]:
        """Return the paths of the image that differ from it, as the daemon finds them."""
        if not self._sandbox.asked.writable:
            return []
        api = self._sandbox.daemon.client.api
        with faults():
            found: list[dict[str, Any]] = api.diff(self._sandbox.container) or []
        return [str(change["Path"]) for change in found]
