"""What worlds that run code have in common: a jail for each episode, which comes back after a fault or a snapshot."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from agentgym.core import TextEnv
from agentgym.errors import Fault
from agentgym.sandbox.protocol import Kernel, Limits, Result, Sandbox, SandboxFault
from agentgym.sandbox.stock import take

T = TypeVar("T")


class JailedEnv(TextEnv):
    """A world with a jail, opened when an episode first needs it and closed with it.

    What is done in the jail goes through `run`, `compute`, `write` and `read`. The first three are kept in a journal: a
    jail that breaks is replaced once by a fresh one in which the journal is carried out again, and so is the jail of a
    restored snapshot. A second failure, or a replay that gives something else, ends the episode as a fault.
    """

    blocking = True
    snapshot_kind = "replay"
    backend: str = "bubblewrap"
    """Which jail (`agentgym.sandbox.sandbox`)."""
    backend_options: Mapping[str, Any] = MappingProxyType({})
    """More for the jail's constructor, for example `{"unsafe": True}` for the `process` backend."""
    settings: ClassVar[tuple[str, ...]] = ("backend", "backend_options")
    limits: Limits = Limits()
    packages: tuple[str, ...] = ()
    """Importable libraries that Python in the jail has loaded already."""

    def prepare(self, jail: Sandbox) -> None:
        """Put into a fresh jail what the task begins with; nothing by default."""

    def pack_folder(self, jail: Sandbox) -> bytes:
        """Return what a jail's folder holds; a world whose folder is large says only what changed in it."""
        return jail.snapshot()

    def unpack_folder(self, jail: Sandbox, folder: bytes) -> None:
        """Give a fresh jail what `pack_folder` returned."""
        jail.restore(folder)

    def setup(self) -> None:
        """Prepare what all episodes share; an override calls this one."""
        self._jail: Sandbox | None = None
        self._kernel: Kernel | None = None

    # What a world does in the jail

    def run(self, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run a shell command in the episode's folder."""
        return self._carry_out(("run", command, stdin, timeout))

    def compute(self, code: str, timeout: float | None = None) -> Result:
        """Run code in the episode's Python, which keeps its variables; when it is lost, a new one starts empty."""
        result = self._carry_out(("compute", code, b"", timeout))
        if self._kernel is not None and not self._kernel.alive:  # only its files are left
            self.keep_folder()
        return result

    def write(self, path: str, content: bytes) -> None:
        """Write a file in the episode's folder; OSError where it cannot be written."""
        self._carry_out(("write", path, content, None))

    def read(self, path: str) -> bytes:
        """Return a file of the episode's folder; FileNotFoundError, IsADirectoryError or OSError."""
        return self._twice(lambda: self.jail.read(path))

    def elsewhere(self, work: Callable[[Sandbox], T]) -> T:
        """Return what `work` returns in a fresh jail, for example of grading; done twice where the first jail breaks."""

        def once() -> T:
            jail = self._take()
            try:
                return work(jail)
            finally:
                jail.close()

        return self._twice(once)

    def keep_folder(self) -> None:
        """Forget how the folder came about and keep what it is: later replays begin there. The Python is ended."""
        self.folder, self.journal = self.pack_folder(self.jail), []
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    @property
    def jail(self) -> Sandbox:
        """The episode's jail; for what changes nothing in it."""
        if self._jail is None:
            self._jail = self._take()
            if self.folder is None:
                self.prepare(self._jail)
            else:
                self.unpack_folder(self._jail, self.folder)
            for step, expected in self.journal:
                if _digest(self._do(step)) != expected:
                    raise Fault(f"the jail could not be brought back: {step[1]!r:.200} gave something else", reason="crash")
        return self._jail

    # How it is done

    def _carry_out(self, step: tuple[str, str, bytes, float | None]) -> Result:
        result = self._twice(lambda: self._do(step))
        self.journal = [*self.journal, (step, _digest(result))]
        return result

    def _do(self, step: tuple[str, str, bytes, float | None]) -> Result:
        kind, text, content, timeout = step
        jail = self.jail
        if kind == "run":
            return jail.run(text, stdin=content, timeout=timeout)
        if kind == "compute":
            if self._kernel is None or not self._kernel.alive:
                self._kernel = jail.kernel()
            return self._kernel.run(text, timeout)
        jail.write(text, content)
        return Result(0, b"", b"", "exit", 0.0)

    def _twice(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except SandboxFault:
            self._drop()
            return work()

    def _take(self) -> Sandbox:
        return take(self.backend, limits=self.limits, packages=self.packages, options=self.backend_options)

    def _drop(self) -> None:
        if self._jail is not None:
            self._jail.close()
        self._jail = self._kernel = None

    def _forget(self) -> None:
        self._drop()
        super()._forget()
        self.folder: bytes | None = None
        """What the folder held when the journal began; None for what `prepare` puts there."""
        self.journal: list[tuple[tuple[str, str, bytes, float | None], str]] = []

    def _break_off(self, fault: Fault) -> Any:
        self._drop()
        return super()._break_off(fault)

    def close(self) -> None:
        """End the jail."""
        self._drop()


def _digest(result: Result) -> str:
    told = f"{result.exit_code} {result.reason}\n".encode() + result.stdout + b"\0" + result.stderr
    return hashlib.blake2b(told, digest_size=8).hexdigest()
