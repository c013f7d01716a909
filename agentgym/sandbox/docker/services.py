"""Side services of a container: networks, volumes and containers with the same lifetime."""

import concurrent.futures
import contextlib
import math
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import BadConfig
from agentgym.sandbox.docker.daemon import LABEL, Daemon, docker, faults, owner
from agentgym.sandbox.protocol import MEGABYTE, Result, SandboxFault

MAIN = "main"
PULSE = 0.1
PATIENCE = 30.0
"""Grace period in seconds beyond the time limit of a program in a service, after which it counts as hung."""
PROCESSES = 512
"""Maximum processes of one service."""
STARTED, HEALTHY, COMPLETED = "service_started", "service_healthy", "service_completed_successfully"


@dataclass(frozen=True)
class Service:
    """One additional container, without privileges and without access to ports or folders of this machine."""

    name: str
    image: str = ""
    """Name of an existing image; empty if the image is built from `build`."""
    build: str = ""
    """Folder with a Dockerfile to build the image from; empty for an existing image."""
    command: tuple[str, ...] = ()
    """Replacement of the image's own command; empty to keep it."""
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    work: str = ""
    user: str = ""
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Networks of the service, each with the additional names of the service there; empty for no network."""
    shares: str = ""
    """Name of the service whose network this service shares, or `main` for the main container; empty for none."""
    volumes: tuple[tuple[str, str, bool], ...] = ()
    """Volumes as (name, mount point, read-only)."""
    memory_folders: tuple[str, ...] = ()
    health: Mapping[str, object] | None = None
    """Health check in the format of the daemon's API; None for the image's own."""
    needs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Services that must start before this one, each with the condition to wait for."""
    cpus: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class SideServices:
    """All side services of a main container."""

    services: tuple[Service, ...]
    networks: Mapping[str, tuple[str, ...]]
    """Networks of the main container, each with the container's names there."""
    volumes: tuple[tuple[str, str, bool], ...] = ()
    """Volumes of the main container as (name, mount point, read-only)."""
    seconds: float = 600.0
    """Time limit in seconds for building the images, and for all services to become healthy."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities of root in every service."""

    @property
    def names(self) -> list[str]:
        """All host names of the services."""
        return [
            name for one in self.services for name in (one.name, *(each for more in one.networks.values() for each in more))
        ]


class Services:
    """The running services; raises BadConfig if an image is missing, SandboxFault if a service fails or stays unhealthy."""

    def __init__(self, daemon: Daemon, beside: SideServices, images: Mapping[str, str], outside: str) -> None:
        self._daemon, self._beside, self._images = daemon, beside, images
        self._outside = outside
        self._id = f"agentgym-{uuid.uuid4().hex[:12]}"
        self._ending = contextlib.ExitStack()
        self._containers: dict[str, str] = {}
        self._deadline = time.monotonic() + beside.seconds
        order = in_order(beside.services)
        self._later = _after_main(order)
        try:
            self._make_networks()
            self._run_all([service for service in order if service not in self._later])
        except BaseException:
            self.close()
            raise

    @property
    def networks(self) -> dict[str, tuple[str, ...]]:
        """The daemon's names of the main container's networks, each with the container's names there."""
        return {self._called(name): names for name, names in self._beside.networks.items()}

    def hosts(self, networks: Mapping[str, object]) -> dict[str, str]:
        """Return IP addresses by host name of the running services on `networks`, since not every daemon resolves names."""
        found = dict[str, str]()
        for service in self._beside.services:
            shared = [name for name in networks if name in service.networks]
            if not shared or service.name not in self._containers:
                continue
            with faults():
                facts: dict[str, Any] = self._daemon.client.api.inspect_container(self._containers[service.name])
            address = str(facts["NetworkSettings"]["Networks"][self._called(shared[0])]["IPAddress"])
            if address:  # None once it has ended
                found |= {name: address for name in (service.name, *service.networks[shared[0]])}
        return found

    @property
    def main_hosts(self) -> dict[str, str]:
        """IP addresses by host name of the services that the main container can reach."""
        return self.hosts(self._beside.networks)

    @property
    def binds(self) -> list[str]:
        """Volumes of the main container in the daemon's `binds` format."""
        return self._binds(self._beside.volumes)

    def _called(self, name: str) -> str:
        return f"{self._id}-{name}"

    def _binds(self, volumes: Sequence[tuple[str, str, bool]]) -> list[str]:
        return [f"{self._called(name)}:{folder}{':ro' if read_only else ''}" for name, folder, read_only in volumes]

    def _make_networks(self) -> None:
        api, beside, everything = self._daemon.client.api, self._beside, self._beside.services
        with faults():
            for name in sorted({*beside.networks, *(name for service in everything for name in service.networks)}):
                api.create_network(
                    self._called(name),
                    driver="bridge",
                    internal=True,
                    options=self._daemon.isolated,
                    labels={LABEL: owner()},
                )
                self._ending.callback(self._remove_network, self._called(name))
            listed = [volume for part in (beside.volumes, *(service.volumes for service in everything)) for volume in part]
            for name in sorted({name for name, _, _ in listed}):
                api.create_volume(self._called(name), labels={LABEL: owner()})
                self._ending.callback(self._remove_volume, self._called(name))

    def join(self, main: str) -> None:
        """Start the services that need the running main container, directly or through other services."""
        self._containers[MAIN] = main
        self._run_all(self._later)

    def _run_all(self, services: Sequence[Service]) -> None:
        for service in services:
            for other, condition in service.needs.items():
                if other in self._containers:
                    self._wait(other, condition, self._deadline)
            self._run(service)
        for service in services:
            if service.health:
                self._wait(service.name, HEALTHY, self._deadline)

    def _run(self, service: Service) -> None:
        api, library = self._daemon.client.api, docker()
        first, *others = service.networks or ("",)
        mode = f"container:{self._containers[service.shares]}" if service.shares else "none"
        memory = int((service.memory_mb or 1024) * MEGABYTE)
        host = api.create_host_config(
            network_mode=self._called(first) if first else mode,
            binds=self._binds(service.volumes),
            tmpfs=dict.fromkeys(service.memory_folders, f"rw,nosuid,nodev,size={256 * MEGABYTE}"),
            extra_hosts=self.hosts(service.networks) or None,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=PROCESSES,
            nano_cpus=None if service.cpus is None else int(service.cpus * 1e9),
            cap_drop=["ALL"],
            cap_add=list(self._beside.capabilities) or None,
            security_opt=["no-new-privileges"],
            log_config={"type": "none", "config": {}},
            init=not self._daemon.podman,
        )
        with faults():
            try:
                made = api.create_container(
                    self._images[service.name],
                    command=list(service.command) or None,
                    entrypoint=list(service.entrypoint) or None,
                    environment=dict(service.environment),
                    working_dir=service.work or None,
                    user=service.user or None,
                    hostname=None if service.shares else service.name,
                    healthcheck=service.health,
                    labels={LABEL: owner()},
                    host_config=host,
                    networking_config=self._endpoint(service, first) if first else None,
                )
            except library.errors.NotFound as error:
                raise BadConfig(f"{self._daemon} has no image {service.image!r} of service {service.name!r}") from error
            self._containers[service.name] = made["Id"]
            self._ending.callback(self._daemon.remove, made["Id"])
            for name in others:
                aliases = [service.name, *service.networks[name]]
                api.connect_container_to_network(made["Id"], self._called(name), aliases=aliases)
            if self._outside and first:
                api.connect_container_to_network(made["Id"], self._outside)
            api.start(made["Id"])

    def _endpoint(self, service: Service, network: str) -> Any:
        api = self._daemon.client.api
        endpoint = api.create_endpoint_config(aliases=[service.name, *service.networks[network]])
        return api.create_networking_config({self._called(network): endpoint})

    def _wait(self, name: str, condition: str, deadline: float) -> None:
        while True:
            with faults():
                facts: dict[str, Any] = self._daemon.client.api.inspect_container(self._containers[name])
            state: dict[str, Any] = facts["State"]
            checked: dict[str, Any] = state.get("Health") or {}
            health = checked.get("Status")
            ended = not state["Running"] and state["Status"] != "created"
            if condition == COMPLETED and ended and state["ExitCode"] == 0:
                return
            if condition != COMPLETED and not ended and (condition == STARTED or health in ("healthy", None)):
                return
            if ended or health == "unhealthy" or time.monotonic() > deadline:
                how = f"ended with {state['ExitCode']}" if ended else f"is {health or 'not done'}"
                raise SandboxFault(f"service {name!r} of the task {how}")
            time.sleep(PULSE)

    def run(self, name: str, command: Sequence[str], user: str, seconds: float) -> Result:
        """Run a program in a service as `user`, for up to `seconds`, and return its first megabyte of output.

        Raises:
            SandboxFault: the program still runs `PATIENCE` seconds after its time limit.
        """
        started = time.monotonic()
        has_timeout = self._ended(name, ["sh", "-c", "command -v timeout"], "", PATIENCE)[0] == 0
        words = ["timeout", "-s", "KILL", str(math.ceil(seconds)), *command] if has_timeout else list(command)
        code, out = self._ended(name, words, user, seconds + PATIENCE)
        return Result(code or 0, out, b"", "exit", time.monotonic() - started)

    def _ended(self, name: str, words: Sequence[str], user: str, seconds: float) -> tuple[int | None, bytes]:
        """Run a program in a service; return its exit code and its first megabyte of output.

        Raises:
            SandboxFault: the program still runs after `seconds`.
        """
        api, deadline, output = self._daemon.client.api, time.monotonic() + seconds, concurrent.futures.Future[bytes]()
        with faults():
            execution = api.exec_create(self._containers[name], list(words), user=user)["Id"]
            reading = (api, execution, deadline, output)
            threading.Thread(target=_read, args=reading, name="service output", daemon=True).start()
            if not concurrent.futures.wait([output], seconds).done:  # a stranger's program may be silent forever
                raise SandboxFault(f"service {name!r} of the task does not end a program")
            out = output.result()
            return api.exec_inspect(execution)["ExitCode"], out

    def container(self, name: str) -> str:
        """Return the container id of a service."""
        return self._containers[name]

    def _remove_network(self, name: str) -> None:
        with contextlib.suppress(docker().errors.NotFound), faults():
            self._daemon.client.api.remove_network(name)

    def _remove_volume(self, name: str) -> None:
        with contextlib.suppress(docker().errors.NotFound), faults():
            self._daemon.client.api.remove_volume(name, force=True)

    def close(self) -> None:
        """Remove all services, networks and volumes; the main container must be removed before."""
        with contextlib.suppress(SandboxFault):  # the next sweep removes what a dying daemon leaves
            self._ending.close()


def _read(api: Any, execution: str, deadline: float, output: concurrent.futures.Future[bytes]) -> None:
    """Start an execution and set `output` to its first megabyte, or to the error; stop reading after the deadline."""
    first = bytearray()
    try:
        for piece in api.exec_start(execution, stream=True):  # a stranger's program may print forever
            first += piece[: MEGABYTE - len(first)]
            if time.monotonic() > deadline:
                return
        output.set_result(bytes(first))
    except Exception as error:
        output.set_exception(error)


def _after_main(order: Sequence[Service]) -> list[Service]:
    """Return the services that cannot start before the main container; `order` is the starting order."""
    later = list[Service]()
    for service in order:
        names = {MAIN, *(other.name for other in later)}
        if service.shares in names or names & set(service.needs):
            later.append(service)
    return later


def in_order(services: Sequence[Service]) -> list[Service]:
    """Return the services in starting order: each after the services it needs.

    Raises:
        BadConfig: services need each other in a cycle.
    """
    left, order = list(services), list[Service]()
    while left:
        names = {service.name for service in left}
        ready = [service for service in left if not names & {*service.needs, service.shares}]
        if not ready:
            raise BadConfig(f"services {sorted(names)} need one another in a circle")
        order += ready
        left = [service for service in left if service not in ready]
    return order
