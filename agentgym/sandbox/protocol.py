"""The sandbox protocol, and the factory."""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

from agentgym.errors import BadConfig, Fault, Reason, UnknownName, how_to_install, no_such

BACKENDS = {
    "bubblewrap": "agentgym.sandbox.bubblewrap.sandbox:Bubblewrap",
    "docker": "agentgym.sandbox.docker.sandbox:Docker",
    "harbor": "agentgym.integrations.harbor:HarborSandbox",
    "process": "agentgym.sandbox.process.sandbox:Process",
}
NO_KERNEL = ("harbor",)
"""Backends that run one program per call; their `kernel()` refuses."""
CONTAINERS = ("docker", "harbor")
"""Backends with an image's libraries instead of this machine's."""
MEGABYTE = 1 << 20
SAME = "-"
"""Stands for a user's name: the user of the sandbox's programs."""


class SandboxFault(Fault):
    """The sandbox itself failed, not the program in it: the episode ends as a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.CRASH)


class BadPath(ValueError):
    """A path outside the working folder."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one execution, the same for every backend."""

    timeout: float = 10.0
    """Wall-clock seconds."""
    memory: int = 512 * MEGABYTE
    """Bytes of the whole process tree; files in memory count as `disk`, and partly here (docs/guides/sandbox.md)."""
    processes: int = 64
    """Simultaneous processes and threads."""
    disk: int = 64 * MEGABYTE
    """Bytes of the working folder, of /tmp and of /dev/shm, each."""
    files: int = 10_000
    """Files and folders in each of them."""
    open_files: int = 256
    """Open files of one process."""
    output: int = MEGABYTE
    """Bytes of standard output and standard error, each; a program that writes more is killed."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < float("inf"):
                raise BadConfig(f"limit {field.name} of a sandbox is {getattr(self, field.name)}; expected a number above 0")

    def seconds(self, timeout: float | None) -> float:
        """Return the time limit of one execution: the requested one, else the default.

        Raises:
            BadConfig: the limit is invalid.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise BadConfig(
                f"timeout is {timeout}; expected seconds above 0, or None for the sandbox's limit of {self.timeout}"
            )
        return self.timeout if timeout is None else timeout


class ExitReason(StrEnum):
    """Why an execution ended."""

    EXIT = "exit"
    """The program exited."""
    TIMEOUT = "timeout"
    """It exceeded its time limit."""
    MEMORY = "memory"
    """It exceeded its memory limit."""
    OUTPUT = "output"
    """It exceeded its output limit."""
    KILLED = "killed"
    """A signal, or something else in the sandbox, killed it."""

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an execution."""

    exit_code: int
    """The program's exit code; -N if signal N killed it; 0 for a kernel's step without an exception."""
    stdout: bytes
    stderr: bytes
    reason: str
    """An `ExitReason`."""
    seconds: float
    """Wall-clock time."""

    @property
    def ok(self) -> bool:
        """True if it exited with code 0."""
        return self.reason == ExitReason.EXIT and self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output, then standard error, as text."""
        return (self.stdout + self.stderr).decode("utf-8", "backslashreplace")


class Program(NamedTuple):
    """One program of a `batch`: a command, or Python code."""

    command: str | Sequence[str] = ()
    """As `run` takes it."""
    code: str = ""
    """As `python` takes it."""
    timeout: float | None = None
    room: int = 0
    """Maximum bytes that our own code may print, which has a separate limit; 0 for other programs."""


class Kernel(Protocol):
    """A persistent Python process, which keeps its variables between steps."""

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code. If it ignores Ctrl-C after a `timeout`, or for any reason other than `exit`, the state is lost."""
        ...

    @property
    def alive(self) -> bool:
        """True if its state still exists."""
        ...

    def close(self) -> None:
        """Stop the kernel."""
        ...


class Sandbox(Protocol):
    """A sandbox whose working folder persists between runs; no process outlives its run.

    No network, read-only system, nothing of the caller's environment. A program's errors are in its `Result`; the sandbox's
    own errors raise `SandboxFault`. Paths are relative to the working folder.
    """

    limits: Limits

    def run(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Result:
        """Run a program (a string goes to a shell in the sandbox), after writing files."""
        ...

    def python(self, code: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run Python code as a separate program, with the sandbox's packages preloaded."""
        ...

    def batch(self, programs: Sequence[Program]) -> list[Result]:
        """Run programs one after another, in one call of the backend where calls cost (`harbor`).

        What one leaves running is ended before the next one starts, as with `run`.
        """
        ...

    def packing(self) -> Program:
        """Return the program that prints what `snapshot` returns, for a batch; `working_folder.packed` reads its result."""
        ...

    def kernel(self) -> Kernel:
        """Start a persistent Python process."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content; raise FileNotFoundError or IsADirectoryError."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; OSError if there is no space."""
        ...

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive, without kernels."""
        ...

    def restore(self, state: bytes) -> None:
        """Restore the working folder."""
        ...

    def close(self) -> None:
        """Kill everything in it and free its resources."""
        ...


class ContainerOptions(TypedDict, total=False):
    """Options of the `docker` backend; see `docker.container.ContainerSpec`."""

    image: str
    build: str
    build_seconds: float
    install: str
    install_network: str
    room: Mapping[str, int]
    user: str
    work: str
    writable: bool
    network: str
    allowed_hosts: Sequence[str] | None
    proxy_image: str
    background: bool
    capabilities: Sequence[str]
    environment: Mapping[str, str]
    cpus: float | None
    pull: str
    images_gb: float | None
    storage_mb: float | None
    beside: Any
    daemon: str


class BackendOptions(ContainerOptions, total=False):
    """Options of single backends: `unsafe` is of `process`, all others are of `docker`."""

    unsafe: bool


def missing(backend: str, packages: Sequence[str] = (), options: Mapping[str, object] | None = None) -> str:
    """Return in one sentence what this machine lacks for a backend and how to get it; empty if nothing.

    Nothing is started: a missing daemon is only noticed when a sandbox is created.

    Raises:
        UnknownName: there is no such backend.
    """
    if backend not in BACKENDS:
        raise UnknownName(no_such("sandbox", backend, BACKENDS))
    if backend == "docker":
        client = importlib.util.find_spec("docker") or "daemon" in (options or {})
        return "" if client else f"the docker sandbox needs the docker package: {how_to_install('docker')}"
    if backend == "harbor":
        client = importlib.util.find_spec("harbor")
        return "" if client else "the harbor sandbox needs the harbor package (Python 3.12 or newer): pip install harbor"
    if backend == "bubblewrap":
        problem = importlib.import_module("agentgym.sandbox.bubblewrap.sandbox").missing()
        if problem:
            return problem
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"it needs the package {absent[0]!r}: pip install {absent[0]}" if absent else ""


def sandbox(
    backend: str = "bubblewrap",
    *,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    **options: Unpack[BackendOptions],
) -> Sandbox:
    """Create a sandbox of a backend; raise BadConfig with installation advice if this machine lacks a requirement.

    `packages`: libraries preloaded in its Python.

    Raises:
        UnknownName: there is no such backend.
    """
    if backend not in BACKENDS:
        raise UnknownName(no_such("sandbox", backend, BACKENDS))
    module, _, name = BACKENDS[backend].partition(":")
    return getattr(importlib.import_module(module), name)(limits, packages=packages, **options)
