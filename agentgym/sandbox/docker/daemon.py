"""The container daemon, Docker's or Podman's: finding it, what it is, and containers whose owners are gone."""

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
"""The label of every container of ours; its value says on which machine and for which process it was made."""
SECONDS = 120.0
"""For an answer of the daemon."""
PATIENCE = 30.0
"""Seconds until a container that is to be removed must be gone."""
HOW = (
    "start one (`systemctl start docker`, or `podman system service --time=0 unix:///run/podman/podman.sock`), or name one "
    "that runs: DOCKER_HOST=unix:///path/to/socket"
)


class Daemon:
    """A daemon that answers; BadConfig where none does."""

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
        """Whether it reads files of this machine."""
        return self.url.startswith("unix:")

    @property
    def isolated(self) -> dict[str, str] | None:
        """Options of an internal network that keep this machine off it: its own servers would be reached there."""
        return None if self.podman else {"com.docker.network.bridge.inhibit_ipv4": "true"}

    def __str__(self) -> str:
        return f"{'Podman' if self.podman else 'Docker'} {self.version} at {self.url}"

    def sweep(self) -> None:
        """Remove containers of this machine's processes that have ended; once a process."""
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
        """Kill a container and remove it; no error where it is gone."""
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(docker().errors.NotFound), faults():
            while True:
                try:
                    self.client.api.remove_container(container, force=True, v=True)
                except docker().errors.APIError as error:
                    if error.status_code == 404 or time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)  # it is ending, or being removed: it was told to leave nothing


def docker() -> Any:
    """Return the `docker` package; MissingExtra where it is not installed."""
    try:
        import docker as library
    except ImportError as error:
        raise MissingExtra(f"the docker sandbox needs the docker package: {how_to_install('docker')}") from error
    return library


def connect(url: str = "") -> Daemon:
    """Return the daemon at a URL, or the one that is usual here; BadConfig where none answers."""
    with _lock:
        return _connected(url or usual(), os.getpid())


_lock = threading.Lock()


@functools.cache
def _connected(url: str, pid: int) -> Daemon:  # a connection does not survive a fork
    return Daemon(url)


def usual() -> str:
    """Return the URL of the daemon that `DOCKER_HOST` names, else of the first socket that is where they usually are."""
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
    """Turn what a daemon fails at into a fault of the sandbox; NotFound and BuildError pass."""
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
    """Return what the daemon says, or what was at the bottom of an error of several layers."""
    explained = str(getattr(error, "explanation", None) or "")
    if explained:
        return explained
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__


# Whose containers are whose


def owner() -> str:
    """Return the label of this process's containers."""
    return f"{_place()} {os.getpid()} {_started(os.getpid())}"


def abandoned(label: str) -> bool:
    """Whether a container was made for a process of this machine that has ended."""
    place, _, process = label.partition(" ")
    pid, _, started = process.partition(" ")
    return place == _place() and pid.isdigit() and _started(int(pid)) != started


def _place() -> str:
    """Return what tells the processes of this machine and name space from those of others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return when a process started, as far as this system tells; empty where there is no such process."""
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
