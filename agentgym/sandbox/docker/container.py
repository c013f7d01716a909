"""One container: its specification, creation, and the stream to its process 1."""

import atexit
import contextlib
import dataclasses
import json
import os
import resource
import socket
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from agentgym.errors import BadConfig
from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker import images
from agentgym.sandbox.docker.building import installed
from agentgym.sandbox.docker.daemon import LABEL, Daemon, docker, faults, owner
from agentgym.sandbox.docker.egress import NOWHERE
from agentgym.sandbox.docker.services import Services, SideServices
from agentgym.sandbox.protocol import Limits, SandboxFault
from agentgym.sandbox.seccomp import DENIED

NOBODY = "65534:65534"
ROOT_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE")
"""Capabilities that root needs for `apt-get` and `chown`."""
NEW_SPACES = 0x7E020000
"""Flags of `clone` that create namespaces, combined."""
PROCESSES = 16_384
"""Maximum processes of one user over all containers; a control group limits each container to `processes`."""
PROFILES = ("/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json")

_HELLO = rf"printf '\000\000\000\000\{frames.END:03o}\000\000\000\002{{}}'; while read -r line; do (:); done"
START = f'command -v python3 >/dev/null 2>&1 && exec python3 -I -c "$0"; {_HELLO}'
"""Shell command of process 1: Python, which receives its program over the stream, else a shell that reaps orphans.

Python and the shell exit when their input ends. The host process holds the other end open, so no container outlives it.
"""
BOOT = f"""
import os, sys
if sys.version_info < (3, 8):
    os.execv('/bin/sh', ['/bin/sh', '-c', {_HELLO!r}])
import __future__, json, struct, types
hello = json.dumps({{'python': sys.version.split()[0]}}).encode()
os.write(1, struct.pack({frames.HEAD.format!r}, 0, {frames.END}, len(hello)) + hello)
def take(size):
    got = b''
    while len(got) < size:
        piece = os.read(0, size - len(got))
        if not piece:
            os._exit(0)
        got += piece
    return got
told = json.loads(take(struct.unpack('!I', take(4))[0]).decode())
for name in ('agentgym', 'agentgym.sandbox', 'agentgym.sandbox.docker', 'agentgym.sandbox.inside'):
    sys.modules[name] = types.ModuleType(name)
for name, source in told['sources']:
    folder, _, last = ('agentgym.sandbox.' + name).rpartition('.')
    module = sys.modules[folder + '.' + last] = types.ModuleType(folder + '.' + last)
    module.__file__ = '/agentgym/' + name.replace('.', '/') + '.py'
    setattr(sys.modules[folder], last, module)
    exec(compile(source, module.__file__, 'exec', __future__.annotations.compiler_flag, True), module.__dict__)
for name in [name for name in sys.modules if name.startswith('agentgym')]:
    del sys.modules[name]  # programs find no such package
module.main(told['settings'])
"""


@dataclass(frozen=True)
class ContainerSpec:
    """Specification of a sandbox's container."""

    image: str = ""
    """Name of the image; with `build`, the name for the built image (empty: a name derived from its source files)."""
    build: str = ""
    """Folder with a `Dockerfile` to build the image from."""
    build_seconds: float = 600.0
    """Time limit of the build in seconds."""
    install: str = ""
    """Script for /bin/sh that root runs once on top of the image; the daemon stores the result as a layer."""
    install_network: str = ""
    """Network for the `install` script; empty: the daemon's default."""
    room: Mapping[str, int] = field(default_factory=dict[str, int])
    """Increases of the limits, by name, to leave room for programs that run next to the agent's commands."""
    user: str = NOBODY
    """User that runs programs: a name or a number, optionally with a group after a colon."""
    work: str = "/home/agent"
    """Absolute path of the working folder, which is in memory, or with `writable` a folder of the image."""
    writable: bool = False
    """Allow changes to the image's files."""
    network: str = "none"
    """Name of a network of the daemon; `none` for no network."""
    allowed_hosts: Sequence[str] | None = None
    """Hosts reachable through the network: names, `*.name`, addresses and CIDR ranges; None: all."""
    proxy_image: str = "python:3-slim"
    """Image with python3, for the proxy that enforces `allowed_hosts`."""
    background: bool = False
    """Let processes outlive the program that started them; an interrupted program's process group is killed."""
    capabilities: Sequence[str] = ()
    """Capabilities of programs that run as root."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables in addition to the image's."""
    cpus: float | None = None
    """Maximum number of CPU cores; None: no limit."""
    pull: str = ""
    """Comma-separated registries from which a missing image may be pulled; empty: none."""
    images_gb: float | None = None
    """Maximum gigabytes of all images in the daemon; beyond it, the oldest images pulled or built here are removed."""
    storage_mb: float | None = None
    """Maximum megabytes of changes to the image's files, if the daemon's storage supports a limit."""
    beside: SideServices | None = None
    """Side services: further containers next to this one; None for none."""
    daemon: str = ""
    """URL of the daemon; empty: the default daemon."""

    def __post_init__(self) -> None:
        if not self.image and not self.build:
            raise BadConfig(
                "the docker sandbox needs an image: image='python:3.12-slim', or build='folder with a Dockerfile'"
            )
        images.check(self.pull, self.images_gb)
        for name, value in self.room.items():
            if name not in _LIMITS or isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadConfig(f"room has {name} = {value!r}; expected numbers of {', '.join(_LIMITS)}, 0 or more")
        if not PurePosixPath(self.work).is_absolute() or PurePosixPath(self.work) == PurePosixPath("/"):
            raise BadConfig(f"work is {self.work!r}; expected the absolute path of a folder in the container, not the root")
        if self.capabilities and self.user.partition(":")[0] not in ("root", "0"):
            raise BadConfig(f"capabilities are of use to root alone, and user is {self.user!r}: say user='root'")


_LIMITS = ("memory", "processes", "disk", "files", "open_files")
KNOWN = tuple(entry.name for entry in dataclasses.fields(ContainerSpec))


class Image(NamedTuple):
    """The daemon's facts about an image."""

    name: str
    variables: dict[str, str]
    user: str
    """Default user of the image."""
    entrypoint: tuple[str, ...] = ()


def with_room(limits: Limits, room: Mapping[str, int]) -> Limits:
    """Return the limits, increased by `room`."""
    return dataclasses.replace(limits, **{name: getattr(limits, name) + more for name, more in room.items()})


def image_of(daemon: Daemon, spec: ContainerSpec) -> Image:
    """Return the image of `spec`, built or pulled if the specification allows it; raise BadConfig if it is unavailable."""
    if spec.build:
        facts = images.built(daemon, Path(spec.build), spec.image, spec.build_seconds, spec.images_gb)
    else:
        facts = images.have(daemon, spec.image, spec.pull, spec.images_gb)
    name = spec.image or next(tag for tag in facts["RepoTags"] if images.BUILT in tag)
    if spec.install:
        name, facts = installed(daemon, name, facts, spec)
    config: dict[str, Any] = facts["Config"]
    listed: list[str] = config.get("Env") or []
    variables = {variable: value for variable, _, value in (pair.partition("=") for pair in listed)}
    return Image(name, variables, config.get("User") or "root", tuple(config.get("Entrypoint") or ()))


def create(
    daemon: Daemon, image: str, spec: ContainerSpec, limits: Limits, network: str, services: Services | None = None
) -> tuple[str, list[str]]:
    """Create a container; return its id and the names of limits that the daemon does not enforce.

    These are among `memory`, `processes`, `files` and `storage`.

    Raises:
        SandboxFault: the daemon fails.
    """
    api, memory = daemon.client.api, limits.memory + limits.disk  # files in memory count as well
    joined = services.networks if services else {}
    if network == "none" and joined:  # `none` would exclude all other networks
        network = next(iter(joined))
    host = api.create_host_config(
        network_mode=network,
        binds=services.binds if services else None,
        extra_hosts=services.main_hosts if services else None,
        dns=None if spec.allowed_hosts is None else [NOWHERE],
        read_only=not spec.writable,
        tmpfs=_in_memory(daemon, spec, limits),
        shm_size=limits.disk,
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=limits.processes + 8,  # includes process 1
        nano_cpus=None if spec.cpus is None else int(spec.cpus * 1e9),
        cap_drop=["ALL"],
        cap_add=list(spec.capabilities) or None,
        security_opt=_security(daemon),
        ulimits=[
            docker().types.Ulimit(name=name, soft=most, hard=most) for name, most in _resources(daemon, limits).items()
        ],
        storage_opt=None if spec.storage_mb is None else {"size": f"{spec.storage_mb:.0f}m"},
        log_config={"type": "none", "config": {}},  # otherwise the daemon logs the whole stream to disk
        auto_remove=True,
    )
    bounded = True
    try:
        container = _created(daemon, image, spec, host, joined.get(network))
    except SandboxFault as fault:
        if spec.storage_mb is None or "storage" not in str(fault):
            raise
        bounded = False  # few storage drivers have quotas
        container = _created(daemon, image, spec, {**host, "StorageOpt": None}, joined.get(network))
    with faults():
        facts = api.inspect_container(container)["HostConfig"]
    loose = [] if facts.get("Memory") == memory else ["memory"]
    loose += [] if (facts.get("PidsLimit") or 0) > 0 else ["processes"]
    loose += ["files"] if daemon.podman else []
    loose += [] if bounded else ["storage"]
    return container, loose


def _created(daemon: Daemon, image: str, spec: ContainerSpec, host: dict[str, Any], names: Sequence[str] | None) -> str:
    api = daemon.client.api
    endpoint = None if names is None else api.create_endpoint_config(aliases=list(names))
    networking = None if names is None else api.create_networking_config({host["NetworkMode"]: endpoint})
    with faults(), _there(image):
        return api.create_container(
            image,
            entrypoint=["/bin/sh", "-c", START, BOOT],
            user=spec.user,
            environment=dict(spec.environment),
            working_dir="/",
            hostname="sandbox",
            stop_signal="SIGKILL",  # process 1 ignores all others
            stdin_open=True,
            healthcheck={"test": ["NONE"]},  # the image's own would run programs next to ours
            labels={LABEL: owner()},
            host_config=host,
            networking_config=networking,
        )["Id"]


@contextlib.contextmanager
def _there(image: str) -> Generator[None]:
    try:
        yield
    except docker().errors.NotFound as error:
        raise SandboxFault(f"image {image!r} was removed meanwhile") from error


def _resources(daemon: Daemon, limits: Limits) -> dict[str, int]:
    """Return the resource limits (`ulimit`) of every process in the container."""
    limits_set = {"nofile": limits.open_files, "core": 0}
    if daemon.podman and daemon.local:  # it would request more processes than a rootless daemon may grant
        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limits_set["nproc"] = PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)
    return limits_set


def _in_memory(daemon: Daemon, spec: ContainerSpec, limits: Limits) -> dict[str, str]:
    """Return the mount options of each in-memory folder, by path."""
    common = f"rw,nosuid,nodev,exec,size={limits.disk}"
    if not daemon.podman:
        common += f",nr_inodes={limits.files}"  # Podman has no such option: process 1 checks instead
    mounts = {"/dev/shm": f"{common},mode=1777"}
    if spec.writable:
        return mounts
    user, _, group = spec.user.replace("root", "0").partition(":")
    owned = f"uid={user},gid={group or user},mode=755" if user.isdigit() else "mode=1777"
    if daemon.podman:
        owned = "U,notmpcopyup,mode=755"
    more = ("/var/tmp", "/run") if daemon.podman else ()  # Podman would mount these without limits
    return {**mounts, **dict.fromkeys(("/tmp", *more), f"{common},mode=1777"), spec.work: f"{common},{owned}"}


def attach(daemon: Daemon, container: str) -> tuple[Any, socket.socket]:
    """Return the stream to process 1 of a container not yet started, and the object that keeps it open."""
    with faults():
        attached = daemon.client.api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    return attached, getattr(attached, "_sock", attached)


def _security(daemon: Daemon) -> list[str]:
    """Return the security options; Docker's default seccomp filter suffices, but Podman's would allow user namespaces."""
    options = ["no-new-privileges"]
    if daemon.podman and daemon.local:
        options.append(f"seccomp={_narrowed(os.getpid())}")  # Podman expects a file's path
    return options


@cache
def _narrowed(_: int) -> str:
    """Write Podman's default filter without the calls forbidden in sandboxes; return the path, one per process id."""
    base = next((path for path in map(Path, PROFILES) if path.exists()), None)
    profile: dict[str, Any] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}
    if base is not None:
        profile = json.loads(base.read_text(encoding="utf-8"))
    refused = {*DENIED, "clone", "clone3"}
    rules = [{**rule, "names": [name for name in rule["names"] if name not in refused]} for rule in profile["syscalls"]]
    spaces = {"index": 0, "value": NEW_SPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    profile["syscalls"] = [
        *(rule for rule in rules if rule["names"]),
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [spaces]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},  # a filter cannot see its flags
        *([] if base else [{"names": list(DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]),
    ]
    with tempfile.NamedTemporaryFile("w", prefix="agentgym-seccomp-", suffix=".json", delete=False) as file:
        json.dump(profile, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name
