"""No sandbox: a program with resource limits and a folder of its own, that can read all its user can."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import BadConfig
from agentgym.sandbox.local.fork_server_sandbox import ForkServerSandbox
from agentgym.sandbox.protocol import Limits


class Process(ForkServerSandbox):
    """Runs programs as this very user, with limits and without isolation: for code one trusts, where there is no sandbox.

    BadConfig unless `unsafe=True`. `packages` are loaded from the caller's own path.
    """

    def __init__(self, limits: Limits | None = None, *, packages: Sequence[str] = (), unsafe: bool = False) -> None:
        if not unsafe:
            raise BadConfig(
                "backend 'process' does not isolate: a program can read your files, use the network and write to all "
                "your folders. Use backend 'bubblewrap' or 'docker', or pass unsafe=True if you trust the programs"
            )
        self.work = tempfile.mkdtemp(prefix="agentgym-work-")
        super().__init__(limits, packages, temporary=[self.work])

    def _command(self, packages: Sequence[str], stage: Path) -> list[str]:
        return [sys.executable, "-s", "-P", str(Path(__file__).parents[1] / "inside" / "fork_server.py")]

    def _told(self) -> dict[str, object]:
        return {"isolated": False}
