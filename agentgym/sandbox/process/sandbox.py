"""Not a real sandbox: programs get resource limits and a working folder, but can read all files that their user can."""

import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import BadConfig
from agentgym.sandbox.local.fork_server_sandbox import ForkServerSandbox
from agentgym.sandbox.protocol import Limits

_USERS = itertools.count(200_000 + 1000 * (os.getpid() % 10_000))
"""User ids without an account, from a start that depends on the process id."""


class Process(ForkServerSandbox):
    """Runs trusted programs as the current user, with limits but without isolation.

    Raises BadConfig unless `unsafe=True`. `packages` are imported from the current Python's installation. Only root may
    set `user`, the user id of programs (`own` for a new id per sandbox), and `work`, the path of the working folder.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        packages: Sequence[str] = (),
        unsafe: bool = False,
        user: int | str = 0,
        work: str = "",
    ) -> None:
        if not unsafe:
            raise BadConfig(
                "backend 'process' does not isolate: a program can read your files, use the network and write to all "
                "your folders. Use backend 'bubblewrap' or 'docker', or pass unsafe=True if you trust the programs"
            )
        if user != "own" and (not isinstance(user, int) or isinstance(user, bool) or user < 0):
            raise BadConfig(f"user of the process sandbox is {user!r}; expected a number or 'own'")
        if (user or work) and os.geteuid() != 0:
            raise BadConfig("user and work of the process sandbox are for root alone")
        self.user = next(_USERS) if isinstance(user, str) else user
        if work:
            Path(work).mkdir(parents=True, exist_ok=True)
        self.work = work or tempfile.mkdtemp(prefix="agentgym-work-")
        if self.user:
            os.chown(self.work, self.user, self.user)
        super().__init__(limits, packages, temporary=[self.work])

    def _command(self, packages: Sequence[str], stage: Path) -> list[str]:
        return [sys.executable, "-s", "-P", str(Path(__file__).parents[1] / "inside" / "fork_server.py")]

    def _own_settings(self) -> dict[str, object]:
        return {"isolated": False, "user": self.user}
