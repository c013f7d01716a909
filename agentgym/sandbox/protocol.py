"""What every sandbox promises, and how to get one."""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Protocol, TypedDict, Unpack

from agentgym.errors import BadConfig, Fault, Reason, UnknownName, how_to_install, no_such

BACKENDS = {
    "bubblewrap": "agentgym.sandbox.bubblewrap.sandbox:Bubblewrap",
    "docker": "agentgym.sandbox.docker.sandbox:Docker",
    "harbor": "agentgym.integrations.harbor:HarborSandbox",
    "process": "agentgym.sandbox.process.sandbox:Process",
}
NO_KERNEL = ("harbor",)
"""Backends whose sandboxes run one program a call: their `kernel()` refuses."""
CONTAINERS = ("docker", "harbor")
"""Backends whose sandboxes have the libraries of an image, and not this machine's."""
MEGABYTE = 1 << 20
SAME = "-"
"""In place of a user's name: whoever the sandbox's programs run as."""


class SandboxFault(Fault):
    """The sandbox itself failed, not the program in it: the episode ends as a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.CRASH)


class BadPath(ValueError):
    """A path that is not one of a file below the working folder."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one execution; the same for every backend."""

    timeout: float = 10.0
    """Seconds of wall clock."""
    memory: int = 512 * MEGABYTE
    """Bytes of the whole process tree; files in memory count as `disk`, and in part here (docs/guides/sandbox.md)."""
    processes: int = 64
    """Processes and threads at once."""
    disk: int = 64 * MEGABYTE
    """Bytes of the working folder, of /tmp and of /dev/shm, each."""
    files: int = 10_000
    """Files and folders in each of them."""
    open_files: int = 256
    """Open files of one process."""
    output: int = MEGABYTE
    """Bytes of standard output and standard error, each; a program that writes more is ended."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < getattr(self, field.name) < float("inf"):
                raise BadConfig(f"limit {field.name} of a sandbox is {getattr(self, field.name)}; expected a number above 0")

    def seconds(self, timeout: float | None) -> float:
        """Return the time limit of one execution: the requested one, else the default; BadConfig if it is invalid."""
        if timeout is not None and not 0 < timeout < float("inf"):
            raise BadConfig(
                f"timeout is {timeout}; expected seconds above 0, or None for the sandbox's limit of {self.timeout}"
            )
        return self.timeout if timeout is None else timeout


class ExitReason(StrEnum):
    """What ended an execution."""

    EXIT = "exit"
    """It ended by itself."""
    TIMEOUT = "timeout"
    """It ran past its time limit."""
    MEMORY = "memory"
    """It used more memory than it may."""
    OUTPUT = "output"
    """It printed more than it may."""
    KILLED = "killed"
    """A signal, or something else in the sandbox, ended it."""

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True)
class Result:
    """How an execution ended."""

    exit_code: int
    """What the program returned; -N when signal N ended it; 0 for a step of a kernel that raised nothing."""
    stdout: bytes
    stderr: bytes
    reason: str
    """An `ExitReason`."""
    seconds: float
    """Wall clock."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and well."""
        return self.reason == ExitReason.EXIT and self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output, then standard error, as text."""
        return (self.stdout + self.stderr).decode("utf-8", "backslashreplace")


class Kernel(Protocol):
    """A Python that keeps its variables from step to step."""

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code. After a `timeout` in which it heeds no Ctrl-C, or any other reason than `exit`, the state is lost."""
        ...

    @property
    def alive(self) -> bool:
        """Whether its state is still there."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Sandbox(Protocol):
    """A sandbox with a working folder that stays from run to run; nothing that a run started outlives it.

    No network, read-only system, nothing of the caller's environment. What a program does wrong is a `Result`; what the
    sandbox itself does wrong raises `SandboxFault`. Paths are relative to the working folder.
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
        """Run Python code as a program of its own, with the imports that the sandbox has ready."""
        ...

    def kernel(self) -> Kernel:
        """Start a Python that keeps its variables."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content; FileNotFoundError, or IsADirectoryError."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; OSError if there is no space."""
        ...

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive; kernels are no part of it."""
        ...

    def restore(self, state: bytes) -> None:
        """Restore the working folder."""
        ...

    def close(self) -> None:
        """End everything in it and free its resources."""
        ...


class ContainerOptions(TypedDict, total=False):
    """What kind of container the `docker` backend makes; see `docker.container.ContainerSpec`."""

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
    """What single backends take: `unsafe` is of `process`, all others are of `docker`."""

    unsafe: bool


def missing(backend: str, packages: Sequence[str] = (), options: Mapping[str, object] | None = None) -> str:
    """Return in one sentence what this machine lacks for a backend and how to get it; empty where nothing is missing.

    Nothing is started: whether a daemon answers is found out when a sandbox is made. UnknownName for no backend.
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
    """Create a sandbox of a backend; BadConfig with what to install if this machine lacks a requirement.

    `packages`: libraries that Python in it has loaded already.
    """
    if backend not in BACKENDS:
        raise UnknownName(no_such("sandbox", backend, BACKENDS))
    module, _, name = BACKENDS[backend].partition(":")
    return getattr(importlib.import_module(module), name)(limits, packages=packages, **options)
