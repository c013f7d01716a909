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
"""Backends without a persistent Python: `kernel()` raises an error."""
CONTAINERS = ("docker", "harbor")
"""Backends whose programs use the libraries of a container image instead of this machine's."""
MEGABYTE = 1 << 20
SAME = "-"
"""Placeholder for a user name, which means the user of the sandbox's programs."""


class SandboxFault(Fault):
    """The sandbox itself failed, not the program in it: the episode ends as a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.CRASH)


class BadPath(ValueError):
    """A path is invalid or leads outside the working folder."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one execution, the same for every backend."""

    timeout: float = 10.0
    """Wall-clock limit in seconds."""
    memory: int = 512 * MEGABYTE
    """Maximum bytes of all processes together; docs/guides/sandbox.md explains how in-memory files count."""
    processes: int = 64
    """Maximum number of simultaneous processes and threads."""
    disk: int = 64 * MEGABYTE
    """Maximum bytes in each of the working folder, /tmp and /dev/shm."""
    files: int = 10_000
    """Maximum number of files and folders in each of the working folder, /tmp and /dev/shm."""
    open_files: int = 256
    """Maximum number of open files of one process."""
    output: int = MEGABYTE
    """Maximum bytes of each of standard output and standard error; a program that writes more is killed."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < float("inf"):
                raise BadConfig(f"limit {field.name} of a sandbox is {getattr(self, field.name)}; expected a number above 0")

    def seconds(self, timeout: float | None) -> float:
        """Return the time limit of one execution in seconds: `timeout` if it is set, else the default.

        Raises:
            BadConfig: `timeout` is not a finite number above 0.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise BadConfig(
                f"timeout is {timeout}; expected seconds above 0, or None for the sandbox's limit of {self.timeout}"
            )
        return self.timeout if timeout is None else timeout


class ExitReason(StrEnum):
    """Reason for the end of an execution."""

    EXIT = "exit"
    """The program exited."""
    TIMEOUT = "timeout"
    """The program exceeded its time limit."""
    MEMORY = "memory"
    """The program exceeded its memory limit."""
    OUTPUT = "output"
    """The program exceeded its output limit."""
    KILLED = "killed"
    """The program was killed by a signal or by another program in the sandbox."""

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one execution."""

    exit_code: int
    """The program's exit code; -N if signal N killed it; 0 for a kernel's step without an exception."""
    stdout: bytes
    stderr: bytes
    reason: str
    """Reason for the end, one of `ExitReason`."""
    seconds: float
    """Wall-clock duration in seconds."""

    @property
    def ok(self) -> bool:
        """True if the program exited with code 0."""
        return self.reason == ExitReason.EXIT and self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output, then standard error, as text."""
        return (self.stdout + self.stderr).decode("utf-8", "backslashreplace")


class Program(NamedTuple):
    """One program of a `batch`: a command, or Python code."""

    command: str | Sequence[str] = ()
    """Command, as in `Sandbox.run`; empty for code."""
    code: str = ""
    """Python code, as in `Sandbox.python`; empty for a command."""
    timeout: float | None = None
    room: int = 0
    """Output limit in bytes for trusted code from `packing`; 0 for an ordinary program."""


class Kernel(Protocol):
    """A persistent Python process, which keeps its variables between steps."""

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code; after `timeout` seconds (None: the sandbox's limit) it gets Ctrl-C.

        The kernel keeps its variables if the code ends or obeys Ctrl-C; otherwise the kernel ends and loses them.
        """
        ...

    @property
    def alive(self) -> bool:
        """True while the kernel runs and has its variables."""
        ...

    def close(self) -> None:
        """Stop the kernel."""
        ...


class Sandbox(Protocol):
    """A sandbox whose working folder persists between runs.

    By default no process outlives its run, and programs have no network, a read-only system, and none of the caller's
    environment variables; the backend `process` does not isolate. A program's errors are in its `Result`; the sandbox's
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
        """Write `files`, then run a program; a string is a shell command."""
        ...

    def python(self, code: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run Python code as a separate program, with the sandbox's packages preloaded."""
        ...

    def batch(self, programs: Sequence[Program]) -> list[Result]:
        """Run programs one after another; `harbor`, where each call is expensive, does so in one call.

        As with `run`, processes that a program leaves are killed before the next program starts.
        """
        ...

    def packing(self) -> Program:
        """Return a program for `batch` that prints a snapshot; `working_folder.packed` extracts it from the result."""
        ...

    def kernel(self) -> Kernel:
        """Start a persistent Python process; raise BadConfig on a backend of `NO_KERNEL`."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content; raise FileNotFoundError, IsADirectoryError, or OSError if it is too large."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; raise OSError if there is no space."""
        ...

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive; the state of kernels is not included."""
        ...

    def restore(self, state: bytes) -> None:
        """Replace the content of the working folder with that of a snapshot."""
        ...

    def close(self) -> None:
        """Kill everything in the sandbox and free its resources."""
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
    """Options that only some backends have: `process` has `unsafe`, `user` and `work`; `docker` has all but `unsafe`."""

    unsafe: bool


def missing(backend: str, packages: Sequence[str] = (), options: Mapping[str, object] | None = None) -> str:
    """Return a sentence on a requirement of a backend that this machine lacks and how to get it; empty if none is missing.

    For `docker` and `harbor`, only the backend's own Python package is checked: creating a sandbox shows the rest.

    Raises:
        UnknownName: the backend is unknown.
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
    """Create a sandbox.

    `packages` are libraries preloaded in the sandbox's Python; `options` are options of the backend.

    Raises:
        UnknownName: the backend is unknown.
        BadConfig: an option is invalid, or this machine lacks a requirement of the backend.
        MissingExtra: the backend's Python package is not installed.
        SandboxFault: the sandbox does not start.
    """
    if backend not in BACKENDS:
        raise UnknownName(no_such("sandbox", backend, BACKENDS))
    module, _, name = BACKENDS[backend].partition(":")
    return getattr(importlib.import_module(module), name)(limits, packages=packages, **options)
