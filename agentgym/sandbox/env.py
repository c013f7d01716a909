"""Base class of environments that run code in a sandbox per episode, which is recreated after a fault or from a snapshot."""

import errno
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

from agentgym.core.actions import spell
from agentgym.core.env import Task, TextEnv
from agentgym.core.outcome import Info
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra, Reason
from agentgym.sandbox.protocol import NO_KERNEL, ExitReason, Kernel, Limits, Program, Result, Sandbox, SandboxFault, missing
from agentgym.sandbox.warm_pool import take
from agentgym.sandbox.working_folder import packed

T = TypeVar("T")


class Step(NamedTuple):
    """One recorded action in a sandbox."""

    kind: str
    """`run`, `compute` or `write`."""
    text: str
    """The command of `run`, the code of `compute`, or the path of `write`."""
    content: bytes
    timeout: float | None


class ExternalAccess(NamedTuple):
    """Access of an external agent to the episode's sandbox, during `SandboxEnv.lend`."""

    sandbox: Sandbox
    user: str
    """User of the agent: a name, `SAME` for the user of the sandbox's programs, or empty for the image's default user."""
    folder: str
    """Absolute path of the folder in which the agent starts."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Environment variables in addition to the sandbox's."""
    seconds: float | None = None
    """Time limit of the task in seconds; None: the task sets no limit."""


class SandboxEnv(TextEnv):
    """An environment with a sandbox, opened on first use and closed with the episode.

    Actions in the sandbox go through `run`, `compute`, `write` and `read`. The first three are recorded in a journal. If
    the sandbox breaks, or a snapshot is restored, the journal is replayed in a fresh sandbox. A second failure, or a
    replay with different results, ends the episode as a fault.
    """

    blocking = True
    snapshot_kind = "replay"
    backend: str = "bubblewrap"
    """Name of the sandbox backend (see `agentgym.sandbox.sandbox`)."""
    backend_options: Mapping[str, Any] = MappingProxyType({})
    """Further arguments of the sandbox's constructor, for example `{"unsafe": True}` for the `process` backend."""
    caller_settings: ClassVar[tuple[str, ...]] = ("backend", "backend_options")
    settings: ClassVar[tuple[str, ...]] = caller_settings
    limits: Limits = Limits()
    packages: tuple[str, ...] = ()
    """Importable libraries preloaded in the sandbox's Python."""
    folder: bytes | None = None
    """Packed content of the working folder at the start of the journal; None: the files from `prepare`."""
    journal: Sequence[tuple[Step, str]] = ()
    """Actions since `folder` was packed, each with a hash of its result."""

    def prepare(self, sandbox: Sandbox) -> None:
        """Put the task's initial files into a fresh sandbox; by default none. Use only `sandbox`, not `self.sandbox`."""

    def images(self, tasks: Sequence[Task]) -> list[str]:
        """Return the container images that tasks need; empty if the backend uses none."""
        image = self.backend_options.get("image")
        return [str(image)] if self.backend == "docker" and image else []

    def pack_folder(self, sandbox: Sandbox) -> bytes:
        """Return the content of a sandbox's working folder; an environment with a large folder returns only the changes.

        Raises:
            OSError: the content or the changes cannot be listed.
        """
        return sandbox.snapshot()

    def unpack_folder(self, sandbox: Sandbox, folder: bytes) -> None:
        """Restore the working folder from the result of `pack_folder` in a fresh sandbox."""
        sandbox.restore(folder)

    def requires(self) -> None:
        """Check that the sandbox and its preloaded libraries are available.

        Raises:
            MissingExtra: a library or the sandbox is missing.
        """
        super().requires()
        packages = (self.packages,) if isinstance(self.packages, str) else self.packages
        problem = missing(self.backend, packages, self.backend_options)
        if problem:
            raise MissingExtra(f"{type(self).__name__} cannot run programs here: {problem}")

    def setup(self) -> None:
        """Prepare resources shared by all episodes; an override must call this method.

        Raises:
            BadConfig: an option needs data that is missing or cannot be read.
        """
        self._sandbox: Sandbox | None = None
        self._kernel: Kernel | None = None
        self._packed: tuple[Result, int] | None = None  # result and size limit of a call that also packed the folder

    # Actions of an environment in the sandbox

    def run(self, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run a shell command in the working folder, and record it."""
        result = self._carry_out(Step("run", command, stdin, timeout))
        if result.reason != ExitReason.EXIT:  # its end is random, so store its effects if possible
            self._keep()
        return result

    def compute(self, code: str, timeout: float | None = None) -> Result:
        """Run code in the episode's persistent Python, and record it; if the Python process is lost, a new one starts.

        On backends without a persistent Python (`NO_KERNEL`) each call is a separate program.
        """
        result = self._carry_out(Step("compute", code, b"", timeout))
        self._keep()
        return result

    def write(self, path: str, content: bytes) -> None:
        """Write a file in the working folder, and record it.

        Raises:
            OSError: the file cannot be written.
        """
        result = self._carry_out(Step("write", path, content, None))
        if result.exit_code:
            raise OSError(result.exit_code, result.text, path)

    def read(self, path: str) -> bytes:
        """Return a file of the working folder; raise FileNotFoundError, IsADirectoryError, or OSError if it is too large."""
        return self._twice(lambda: self.sandbox.read(path))

    # External agents in the sandbox

    def briefing(self) -> str:
        """Return the prompt of the running task for an external agent: the instruction, without the environment's tools."""
        return self.task.instruction

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        """Let an external agent work in the episode's sandbox with its own tools, and record its changes.

        The agent's work cannot be replayed: if the sandbox breaks later, the episode ends as a fault.

        Raises:
            BadConfig: the environment does not support external agents.
        """
        raise BadConfig(f"{type(self).__name__} has no sandbox for an external agent")

    def solution_commands(self) -> Sequence[str]:
        """Return shell commands with which an external agent solves the running task from its initial state.

        Raises:
            NotImplementedError: the task has no known solution.
        """
        raise NotImplementedError(f"{type(self).__name__} has no solution in shell commands")

    def handing_in(self) -> str:
        """Return the action that submits an external agent's work."""
        return spell("submit")

    def elsewhere(self, work: Callable[[Sandbox], T]) -> T:
        """Return the result of `work` in a fresh sandbox, for example for grading; retry once if the sandbox breaks."""
        try:
            return self._in_another(work)
        except SandboxFault:
            return self._in_another(work)

    def keep_folder(self) -> None:
        """Pack the working folder as the new start of replays, empty the journal, and end the Python process.

        Raises OSError if the folder cannot be packed, for example because it is too large.
        """
        ready, self._packed = self._packed, None
        self.folder = self._twice(lambda: self.pack_folder(self.sandbox)) if ready is None else packed(*ready)
        self.journal = ()
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    @property
    def sandbox(self) -> Sandbox:
        """The episode's sandbox, created and brought to the current state if necessary; changes to it are not recorded."""
        if self._sandbox is None:
            self._sandbox = sandbox = self._take()
            try:
                self._bring_back(sandbox)
            except BaseException:
                self._drop()
                raise
        return self._sandbox

    # Implementation

    def _bring_back(self, sandbox: Sandbox) -> None:
        if self.folder is None:
            self.prepare(sandbox)
        else:
            try:
                self.unpack_folder(sandbox, self.folder)
            except (OSError, BadData) as error:
                raise Fault(f"the folder could not be brought back: {error}", reason=Reason.CRASH) from error
        for step, expected in self.journal:
            if _digest(self._do(sandbox, step)) != expected:
                raise Fault(
                    f"the sandbox could not be brought back: {step.text!r:.200} gave something else", reason=Reason.CRASH
                )

    def _carry_out(self, step: Step) -> Result:
        result = self._twice(lambda: self._do(self.sandbox, step))
        self.journal = (*self.journal, (step, _digest(result)))
        return result

    def _do(self, sandbox: Sandbox, step: Step) -> Result:
        self._packed = None
        if step.kind == "run":
            return sandbox.run(step.text, stdin=step.content, timeout=step.timeout)
        if step.kind == "compute" and self.backend in NO_KERNEL:
            return self._run_and_pack(sandbox, step)
        if step.kind == "compute":
            if self._kernel is None or not self._kernel.alive:
                self._kernel = sandbox.kernel()
            return self._kernel.run(step.text, step.timeout)
        try:
            sandbox.write(step.text, step.content)
        except OSError as error:  # it may have created folders already
            return Result(error.errno or errno.EIO, b"", (error.strerror or str(error)).encode(), "exit", 0.0)
        return Result(0, b"", b"", "exit", 0.0)

    def _run_and_pack(self, sandbox: Sandbox, step: Step) -> Result:
        """Run code as a separate program, and pack the folder for `keep_folder` in the same call."""
        program, packing = Program(code=step.text, timeout=step.timeout), sandbox.packing()
        plain = type(self).pack_folder is SandboxEnv.pack_folder
        result, *folder = sandbox.batch([program, packing] if plain else [program])
        self._packed = (folder[0], packing.room) if folder else None
        return result

    def _keep(self) -> None:
        """Call `keep_folder` if no Python process runs, so that the folder is the whole state; ignore packing errors."""
        if self._sandbox is not None and (self._kernel is None or not self._kernel.alive):
            try:
                self.keep_folder()
            except OSError:
                return  # continue the journal

    def save(self) -> object:
        """Return a payload from which `load` recreates the state: the packed folder if it suffices, else the journal."""
        if self.journal:
            self._keep()
        return super().save()

    def _twice(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except SandboxFault:
            self._drop()
            return work()

    def _in_another(self, work: Callable[[Sandbox], T]) -> T:
        sandbox = self._take()
        try:
            return work(sandbox)
        finally:
            sandbox.close()

    def _take(self) -> Sandbox:
        return take(self.backend, limits=self.limits, packages=self.packages, options=self.backend_options)

    def _drop(self) -> None:
        sandbox, self._sandbox, self._kernel = self._sandbox, None, None
        if sandbox is not None:
            sandbox.close()

    def health_check(self) -> None:
        """Check that a fresh sandbox runs a trivial program.

        Raises:
            SandboxFault: the program or the sandbox fails.
        """
        result = self.elsewhere(lambda sandbox: sandbox.run("echo works"))
        if not result.ok or result.stdout.strip() != b"works":
            raise SandboxFault(f"the sandbox does not run `echo works` ({result.reason}): {result.text[-300:]}")

    def forget(self) -> None:
        self._drop()
        super().forget()

    def break_off(self, fault: Fault) -> tuple[str, float, bool, bool, Info]:
        self._drop()
        return super().break_off(fault)

    def close(self) -> None:
        """Close the sandbox; a further step continues the episode in a new sandbox."""
        self._drop()


_ADDRESS = re.compile(rb"0x[0-9a-f]{6,16}")


def _digest(result: Result) -> str:
    """Return a hash of a result's exit code, reason and, if the program exited, output without memory addresses.

    All results with the reason `timeout` have the same hash.
    """
    content = f"{result.exit_code} {result.reason}\n".encode()
    if result.reason == ExitReason.EXIT:
        content += _ADDRESS.sub(b"0x", result.stdout + b"\0" + result.stderr)
    elif result.reason == ExitReason.TIMEOUT:
        content = b"timeout"
    return hashlib.blake2b(content, digest_size=8).hexdigest()
