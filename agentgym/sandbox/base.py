"""Common base class of the sandboxes; backends implement execution of programs, file access, snapshots and closing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from agentgym.sandbox import working_folder
from agentgym.sandbox.protocol import Limits, Program, Result


class BaseSandbox(ABC):
    """Implements part of the protocol `Sandbox` with a backend's methods, and closes itself as a context manager."""

    limits: Limits

    def run(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Result:
        """Write `files`, then run a program; a string is a shell command."""
        for path, content in (files or {}).items():
            self.write(path, content)
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        return self._execute({"kind": "command", "command": words}, stdin, timeout)

    def python(self, code: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run Python code as a separate program, with the sandbox's packages preloaded."""
        return self._execute({"kind": "python", "code": code}, stdin, timeout)

    def batch(self, programs: Sequence[Program]) -> list[Result]:
        """Run programs one after another; see `Sandbox.batch`."""
        return [self._one(program) for program in programs]

    def _one(self, program: Program) -> Result:
        if program.room:
            return self._trusted(program.code, b"", program.room)
        if program.code:
            return self.python(program.code, timeout=program.timeout)
        return self.run(program.command, timeout=program.timeout)

    def packing(self) -> Program:
        """Return the program that prints what `snapshot` returns; see `Sandbox.packing`."""
        return Program(code=working_folder.packing(self._state_bytes), room=self._most)

    @property
    def _most(self) -> int:
        """Maximum bytes of an archive of the working folder."""
        return 2 * self.limits.disk + 2048 * self.limits.files

    @property
    def _state_bytes(self) -> int:
        """Maximum bytes of the files in a snapshot of the working folder."""
        return self._most

    @abstractmethod
    def _trusted(self, code: str, stdin: bytes, cap: int) -> Result: ...

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; raise OSError if there is no space."""

    @abstractmethod
    def close(self) -> None:
        """Kill everything in the sandbox and free its resources."""

    @abstractmethod
    def _execute(self, request: dict[str, object], stdin: bytes, timeout: float | None) -> Result: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
