"""The container daemon, Docker's or Podman's: connection, properties, and removal of abandoned containers."""

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.sandbox.protocol import SandboxFault

LABEL = "agentgym"
"""Label of all our containers; its value identifies their machine and process."""
SECONDS = 120.0
"""Time limit in seconds for a response of the daemon."""
PATIENCE = 30.0
"""Time limit in seconds for removing a container."""
HOW = (
    "start one (`systemctl start docker`, or `podman system service --time=0 unix:///run/podman/podman.sock`), or name one "
    "that runs: DOCKER_HOST=unix:///path/to/socket"
)


class Daemon:
    """A connection to a daemon; raises BadConfig if none responds at the URL."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        library = docker()
        self.url = url
        try:
            self.client: Any = library.DockerClient(base_url=url, timeout=seconds, max_pool_size=64)
            version: dict[str, Any] = self.client.version()
        except (library.errors.DockerException, OSError, ValueError) as error:
            raise BadConfig(f"no container daemon answers at {url} ({_last(error)}): {HOW}") from error
        parts: list[dict[str, Any]] = version.get("Components") or []
        self.podman = any("podman" in str(part.get("Name")).lower() for part in parts)
        self.version = str(version.get("Version", "?"))
        self._swept = False

    @property
    def local(self) -> bool:
        """True if the daemon can read files of this machine."""
        return self.url.startswith("unix:")

    @property
    def isolated(self) -> dict[str, str] | None:
        """Options for an internal network that cannot reach servers on this machine; None for Podman."""
        return None if self.podman else {"com.docker.network.bridge.inhibit_ipv4": "true"}

    def __str__(self) -> str:
        return f"{'Podman' if self.podman else 'Docker'} {self.version} at {self.url}"

    def sweep(self) -> None:
        """Remove containers and networks that ended processes of this machine left behind; runs once per process."""
        if self._swept:
            return
        self._swept = True
        with faults():
            for container in self.client.api.containers(all=True, filters={"label": LABEL}):
                labels: dict[str, str] = container["Labels"]
                if abandoned(labels[LABEL]):
                    self.remove(container["Id"])
            for network in self.client.api.networks(filters={"label": LABEL}):
                if abandoned(network["Labels"][LABEL]):
                    with contextlib.suppress(docker().errors.NotFound):
                        self.client.api.remove_network(network["Id"])

    def remove(self, container: str) -> None:
        """Kill and remove a container, if it exists."""
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(docker().errors.NotFound), faults():
            while True:
                try:
                    self.client.api.remove_container(container, force=True, v=True)
                except docker().errors.APIError as error:
                    if error.status_code == 404 or time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)  # it is already ending or being removed


def docker() -> Any:
    """Return the `docker` package.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        import docker as library
    except ImportError as error:
        raise MissingExtra(f"the docker sandbox needs the docker package: {how_to_install('docker')}") from error
    return library


def connect(url: str = "") -> Daemon:
    """Return the daemon at `url` (empty: the default daemon); raise BadConfig if it does not respond."""
    with _lock:
        return _connected(url or usual(), os.getpid())


_lock = threading.Lock()


@functools.cache
def _connected(url: str, pid: int) -> Daemon:  # a connection does not survive a fork
    return Daemon(url)


def usual() -> str:
    """Return the URL of the default daemon: `DOCKER_HOST`, else the first existing socket among the usual paths."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    folder = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    places = [
        *("/var/run/docker.sock", f"{folder}/docker.sock", str(Path.home() / ".docker/run/docker.sock")),
        *(f"{folder}/podman/podman.sock", "/run/podman/podman.sock"),
    ]
    return "unix://" + next((place for place in places if Path(place).exists()), places[0])


@contextlib.contextmanager
def faults() -> Generator[None]:
    """Convert errors of the daemon in the `with` block to SandboxFault, except NotFound and BuildError.

    Raises:
        SandboxFault: the daemon failed.
    """
    library = docker()
    import requests
    import urllib3

    try:
        yield
    except (library.errors.NotFound, library.errors.BuildError):
        raise
    except (library.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise SandboxFault(f"the container daemon failed: {_last(error)}") from error


def _last(error: BaseException) -> str:
    """Return the daemon's message, or the innermost cause of a nested error."""
    explained = str(getattr(error, "explanation", None) or "")
    if explained:
        return explained
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__


# Ownership of containers


def owner() -> str:
    """Return the label value that marks containers as this process's."""
    return f"{_place()} {os.getpid()} {_started(os.getpid())}"


def abandoned(label: str) -> bool:
    """Return True if the label's process was on this machine and has ended."""
    place, _, process = label.partition(" ")
    pid, _, started = process.partition(" ")
    return place == _place() and pid.isdigit() and _started(int(pid)) != started


def _place() -> str:
    """Return an identifier of this machine's boot and this process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return a process's start time as text; `runs` if the time is unknown, empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        if Path("/proc/self").exists():
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "runs"
