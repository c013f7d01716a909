"""A task's `docker-compose.yaml`: side services, restricted to an allowlist of keys.

The file is not trusted. Keys that affect this machine are refused with a reason: its folders, ports, devices, namespaces,
variables, privileges and capabilities. Unknown keys are refused, too.
"""

import importlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from agentgym.errors import BadData, MissingExtra, how_to_install
from agentgym.sandbox.docker.container import ROOT_CAPABILITIES
from agentgym.sandbox.docker.images import is_name
from agentgym.sandbox.docker.services import COMPLETED, HEALTHY, MAIN, STARTED, Service, SideServices

_SHARED = "service:"
"""Prefix of `network_mode` before the name of the service whose network is shared."""
MOST_BYTES, MOST_VALUES, MOST_SERVICES = 100_000, 5000, 16
IGNORED = frozenset(
    (
        "container_name", "cap_drop", "expose", "hostname", "init", "labels", "logging", "platform", "pull_policy",
        "restart", "stdin_open", "stop_grace_period", "stop_signal", "tty",
    )
)  # fmt: skip
"""Keys that are ignored because they have no effect that a task could notice."""
KNOWN = frozenset(
    (
        "build", "command", "cpus", "depends_on", "deploy", "entrypoint", "environment", "healthcheck", "image",
        "mem_limit", "networks", "read_only", "shm_size", "tmpfs", "user", "volumes", "working_dir",
    )
)  # fmt: skip
REFUSED = {
    "privileged": "runs privileged",
    "cap_add": "chooses capabilities",
    "security_opt": "chooses its own security options",
    "ports": "publishes ports of this machine (others of the task reach it by its name)",
    "network_mode": "chooses a network of the daemon or of this machine",
    "extra_hosts": "names hosts outside of the task",
    "env_file": "reads a file of this machine",
    "devices": "takes devices of this machine",
    "device_cgroup_rules": "takes devices of this machine",
    "gpus": "asks for GPUs, which containers here have not",
    "volumes_from": "mounts what other containers have",
    **dict.fromkeys(("pid", "ipc", "uts", "userns_mode", "cgroup", "cgroup_parent"), "leaves its name space"),
    **dict.fromkeys(("sysctls", "runtime", "group_add", "dns"), "chooses how the daemon runs it"),
    **dict.fromkeys(("secrets", "configs", "extends", "credential_spec"), "reads a file of this machine"),
}
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(?:(:?[-?+])([^}]*))?\}|\$([A-Za-z_]\w*)")
_LOGS = re.compile(r"\$\{HOST_\w+_PATH\}:")
"""Pattern of volumes for Harbor's log folders, which older tasks mount; agentgym copies these folders instead."""
Mapped = dict[str, Any]


@dataclass(frozen=True)
class Compose:
    """Content of a compose file: settings of the main container, and side services."""

    beside: SideServices
    image: str = ""
    build: Path | None = None
    """Folder of the main container's Dockerfile; None if the compose file does not name one."""
    work: str = ""
    environment: Mapping[str, str] | None = None
    command: tuple[str, ...] = ()
    health: Mapping[str, object] | None = None


def compose_in(folder: Path, variables: Mapping[str, str]) -> Compose | None:
    """Return the content of a folder's compose file; None if there is none. `variables` are the task's variables.

    Raises:
        BadData: the file has an unknown key, too many services, a missing dependency, or a service without an image.
    """
    file = next((path for end in ("yaml", "yml") if (path := folder / f"docker-compose.{end}").is_file()), None)
    if file is None:
        return None
    raw = _loaded(file)
    unknown_keys = (
        set(raw) - {"services", "volumes", "networks", "version", "name"} - {key for key in raw if key[:2] == "x-"}
    )
    if unknown_keys:
        raise BadData(f"{file}: {sorted(unknown_keys)[0]!r:.60} is not understood here; leave it out")
    values = {**variables, "CONTEXT_DIR": ".", "MAIN_IMAGE_NAME": "", "PREBUILT_IMAGE_NAME": ""}
    reader = _Reader(file, folder, values, _plain(raw, "volumes", file), _plain(raw, "networks", file))
    services = _table(raw.get("services"), f"{file}: services")
    if len(services) > MOST_SERVICES:
        raise BadData(f"{file} has {len(services)} services; expected at most {MOST_SERVICES}")
    read = {name: reader.service(name, _table(body, f"{file}: {name}")) for name, body in services.items()}
    main = read.pop(MAIN, None) or Service(MAIN, networks={"default": ()})
    referenced = {other for service in (main, *read.values()) for other in (*service.needs, service.shares) if other}
    absent = referenced - {*read, MAIN}
    if absent:
        raise BadData(f"{file}: a service needs {sorted(absent)[0]!r:.60}, which the file does not have")
    for service in read.values():
        if not service.build and not is_name(service.image):
            what = f"the image {service.image!r:.100}, which is no name of one" if service.image else "no image and no build"
            raise BadData(f"{file}: service {service.name!r} has {what}")
    others = tuple(
        replace(service, needs={name: condition for name, condition in service.needs.items() if name != MAIN})
        for service in read.values()
    )
    return Compose(
        SideServices(others, {name: (MAIN, *more) for name, more in main.networks.items()}, main.volumes),
        image="" if main.build else main.image,
        build=Path(main.build) if main.build else None,
        work=main.work,
        environment=main.environment,
        command=(*main.entrypoint, *main.command) if not _idles(main) else (),
        health=main.health,
    )


def _idles(main: Service) -> bool:
    """Return True if the main container's command only keeps the container running."""
    words = " ".join((*main.entrypoint, *main.command))
    return not words or bool(re.fullmatch(r"((/bin/)?(ba)?sh -c )?(exec )?(sleep \S+|tail -f /dev/null)", words))


def _loaded(file: Path) -> Mapped:
    """Return the content of a YAML file; the number of values is limited, also after the expansion of aliases.

    Raises:
        MissingExtra: pyyaml is not installed.
        BadData: the file is too large or malformed.
    """
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise MissingExtra(f"{file} needs the package pyyaml: {how_to_install('docker')}") from error
    text = file.read_bytes()
    if len(text) > MOST_BYTES:
        raise BadData(f"{file} has {len(text)} bytes; expected at most {MOST_BYTES}")
    try:
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadData(f"{file}: {str(error)[:300]}") from error
    left: list[object] = [loaded]
    count = 0
    while left:
        count += 1
        if count > MOST_VALUES:
            raise BadData(f"{file} has more than {MOST_VALUES} values")
        value = left.pop()
        if isinstance(value, dict):
            table = cast("dict[object, object]", value)
            left += [*table.keys(), *table.values()]
        elif isinstance(value, list):
            left += list[object](value)  # pyright: ignore[reportUnknownArgumentType]
    return _table(loaded, str(file))


def _table(value: object, where: str) -> Mapped:
    table: dict[object, Any] = cast("dict[object, Any]", value) if isinstance(value, dict) else {}
    if value is not None and (not isinstance(value, dict) or not all(isinstance(key, str) for key in table)):
        raise BadData(f"{where} is {str(cast('object', value))[:60]!r}; expected a table")
    return cast("Mapped", table)


def _plain(raw: Mapped, key: str, file: Path) -> frozenset[str]:
    """Return the names of volumes or networks, checking that they have no options.

    Raises:
        BadData: a name is malformed or has options.
    """
    listed = _table(raw.get(key), f"{file}: {key}")
    for name, body in listed.items():
        more = set(_table(body, f"{file}: {key}: {name}")) - {"internal", "labels"}
        if body and body.get("driver") in ("local", "bridge"):
            more.discard("driver")
        if more or not _NAME.fullmatch(name):
            raise BadData(
                f"{file}: {key} {name!r:.60} has {sorted(more)}; expected a name alone, for all else is this machine's"
            )
    return frozenset(listed)


@dataclass(frozen=True)
class _Reader:
    file: Path
    folder: Path
    variables: Mapping[str, str]
    volumes: frozenset[str]
    networks: frozenset[str]

    def service(self, name: str, raw: Mapped) -> Service:
        """Parse the service `name`.

        Raises:
            BadData: the service has a refused or an unknown key.
        """
        where = f"{self.file}: service {name!r:.60}"
        if not _NAME.fullmatch(name):
            raise BadData(f"{where}: its name is not one of a host")
        for key, value in raw.items():
            if key in REFUSED and value and not self._harmless(name, key, value):
                raise BadData(f"{where} {REFUSED[key]} ({key}), which a task may not; leave it out")
            if key not in REFUSED | dict.fromkeys(KNOWN | IGNORED):
                raise BadData(f"{where}: {key!r:.60} is not understood here; leave it out")
        limits, mode = self._limits(raw, where), str(raw.get("network_mode") or "")
        if mode and raw.get("networks"):
            raise BadData(f"{where} has both networks and network_mode; leave one of them out")
        return Service(
            name=name,
            image=self._text(raw.get("image"), where),
            build=self._build(raw.get("build"), where),
            command=self._words(raw.get("command"), where),
            entrypoint=self._words(raw.get("entrypoint"), where),
            environment=self._environment(raw.get("environment"), where),
            work=self._text(raw.get("working_dir"), where),
            user=self._text(raw.get("user"), where),
            networks=self._networks(raw.get("networks"), where) if not mode else {},
            shares=mode.removeprefix(_SHARED) if mode != "none" else "",
            volumes=tuple(found for entry in self._list(raw.get("volumes")) if (found := self._volume(entry, where))),
            memory_folders=tuple(self._text(entry, where).split(":")[0] for entry in self._list(raw.get("tmpfs"))),
            health=self._health(_table(raw.get("healthcheck"), f"{where}: healthcheck"), where),
            needs=self._needs(raw.get("depends_on"), where),
            cpus=limits[0],
            memory_mb=limits[1],
        )

    def _harmless(self, name: str, key: str, value: object) -> bool:
        """Return True if a key that is normally refused has a value without an effect on this machine."""
        if key == "network_mode":
            shared = isinstance(value, str) and value.startswith(_SHARED) and _NAME.fullmatch(value.removeprefix(_SHARED))
            return name != MAIN and (value == "none" or bool(shared))
        return key == "security_opt" and value == ["no-new-privileges:true"]

    def _list(self, value: object) -> list[object]:
        return cast("list[object]", value) if isinstance(value, list) else [] if value is None else [value]

    def _text(self, value: object, where: str) -> str:
        """Return a text with the task's variables substituted.

        Raises:
            BadData: the value is not a text, or it refers to a variable of this machine.
        """
        if isinstance(value, dict | list):
            raise BadData(f"{where} has {str(cast('object', value))[:60]!r}; expected a text")
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

        def filled(match: re.Match[str]) -> str:
            if match[0] == "$$":
                return "$"
            name, how = match[1] or match[4], match[2] or ""
            if name in self.variables:
                return self.variables[name]
            if not how.endswith("-"):
                raise BadData(f"{where} asks for {match[0]!r:.60}, a variable of this machine; write its value there")
            return match[3]

        return _VARIABLE.sub(filled, text)

    def _words(self, value: object, where: str) -> tuple[str, ...]:
        if isinstance(value, str):
            try:
                return tuple(shlex.split(self._text(value, where)))
            except ValueError as error:
                raise BadData(f"{where} has {value!r:.60}: {error}") from error
        return tuple(self._text(entry, where) for entry in self._list(value))

    def _build(self, value: object, where: str) -> str:
        if value is None:
            return ""
        table = _table({"context": value} if isinstance(value, str) else value, f"{where}: build")
        if more := sorted(set(table) - {"context", "dockerfile"}):
            raise BadData(f"{where}: build has {more[0]!r:.60}, which is not understood here; leave it out")
        if (dockerfile := self._text(table.get("dockerfile"), where)) not in ("", "Dockerfile"):
            raise BadData(f"{where}: dockerfile is {dockerfile!r:.60}; expected 'Dockerfile', in its own folder")
        context = (self.folder / (self._text(table.get("context"), where) or ".")).resolve()
        if not context.is_relative_to(self.folder.resolve()) or not (context / "Dockerfile").is_file():
            raise BadData(f"{where}: its build context is not a folder with a Dockerfile in {self.folder.name}/")
        return str(context)

    def _environment(self, value: object, where: str) -> dict[str, str]:
        if isinstance(value, dict):
            table = _table(cast("object", value), f"{where}: environment")
            bare = next((key for key, entry in table.items() if entry is None), "")
        else:
            pairs = [str(entry).partition("=") for entry in self._list(value)]
            table: Mapped = {key: entry for key, _, entry in pairs}
            bare = next((key for key, equals, _ in pairs if not equals), "")
        if bare:
            raise BadData(f"{where} asks for {bare!r:.60}, a variable of this machine; write its value there")
        return {key: self._text(entry, where) for key, entry in table.items()}

    def _networks(self, value: object, where: str) -> dict[str, tuple[str, ...]]:
        names: Mapped = {} if isinstance(value, dict) else {str(name): None for name in self._list(value)}
        table = names or _table(cast("object", value), f"{where}: networks")
        found = dict[str, tuple[str, ...]]()
        for name, body in table.items():
            more = _table(body, f"{where}: networks: {name}")
            if set(more) - {"aliases"} or name not in self.networks | {"default"}:
                raise BadData(f"{where} is on network {name!r:.60}; expected one that the file names, with aliases alone")
            found[name] = tuple(self._text(alias, where) for alias in self._list(more.get("aliases")))
        return found or {"default": ()}

    def _volume(self, entry: object, where: str) -> tuple[str, str, bool] | None:
        """Return a volume's name, its path in the container, and True if it is read-only; None for Harbor's log folders.

        Raises:
            BadData: the source may be a folder of this machine.
        """
        if isinstance(entry, str):
            if _LOGS.match(entry):
                return None
            source, _, rest = self._text(entry, where).partition(":")
            target, _, mode = rest.partition(":")
            read_only = "ro" in mode.split(",")
        else:
            table = _table(entry, f"{where}: volumes")
            source, target = (self._text(table.get(key), where) for key in ("source", "target"))
            read_only = bool(table.get("read_only"))
            if table.get("type", "volume") != "volume" or set(table) - {"type", "source", "target", "read_only"}:
                source = f"{table.get('type')} {source}"
        path = PurePosixPath(target)
        if source not in self.volumes or not path.is_absolute() or ".." in path.parts or ":" in target:
            raise BadData(
                f"{where} mounts {source!r:.60}, which may be a folder of this machine; expected a volume that the file "
                "names, and an absolute path"
            )
        return source, target, read_only

    def _health(self, raw: Mapped, where: str) -> Mapping[str, object] | None:
        test = raw.get("test")
        if not raw or raw.get("disable") or test in (["NONE"], "NONE"):
            return None
        words = ["CMD-SHELL", self._text(test, where)] if isinstance(test, str) else list(self._words(test, where))
        if not words or words[0] not in ("CMD", "CMD-SHELL"):
            raise BadData(f"{where}: the test of its healthcheck is {str(test)[:60]!r}; expected a command")
        times = {key: _nanoseconds(raw.get(key), where) for key in ("interval", "timeout", "start_period", "start_interval")}
        retries = raw.get("retries", 3)
        return {
            "Test": words,
            "Interval": times["interval"] or int(5e9),
            "Timeout": times["timeout"] or int(30e9),
            "StartPeriod": times["start_period"],
            "Retries": retries if isinstance(retries, int) else 3,
        }

    def _needs(self, value: object, where: str) -> dict[str, str]:
        if not isinstance(value, dict):
            return {str(name): STARTED for name in self._list(value)}
        found = dict[str, str]()
        for name, body in _table(cast("object", value), f"{where}: depends_on").items():
            condition = _table(body, f"{where}: depends_on").get("condition", STARTED)
            if condition not in (STARTED, HEALTHY, COMPLETED):
                raise BadData(
                    f"{where} waits for {condition!r:.60} of {name!r:.60}; expected {STARTED}, {HEALTHY}, {COMPLETED}"
                )
            found[name] = condition
        return found

    def _limits(self, raw: Mapped, where: str) -> tuple[float | None, float | None]:
        deploy = _table(raw.get("deploy"), f"{where}: deploy")
        resources = _table(deploy.get("resources"), f"{where}: deploy")
        limits = _table(resources.get("limits"), f"{where}: deploy")
        if set(deploy) - {"resources"} or set(resources) - {"limits", "reservations"} or set(limits) - {"cpus", "memory"}:
            raise BadData(f"{where}: deploy has more than limits of cpus and memory; leave it out")
        cpus = self._text(raw.get("cpus", limits.get("cpus")), where)
        memory = self._text(raw.get("mem_limit", limits.get("memory")), where)
        size = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?", memory.lower())
        if (memory and not size) or (cpus and not re.fullmatch(r"\d{1,4}(\.\d+)?", cpus)):
            raise BadData(f"{where} asks for {cpus or memory!r:.60}; expected a number of cpus, and memory such as '512m'")
        scale = {"": 1 / 1048576, "k": 1 / 1024, "m": 1.0, "g": 1024.0}
        return float(cpus) if cpus else None, max(float(size[1]) * scale[size[2]], 8.0) if size else None


def _nanoseconds(value: object, where: str) -> int:
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|us|h|m|s)", str(value or "0s"))
    if "".join(f"{number}{unit}" for number, unit in parts) != str(value or "0s"):
        raise BadData(f"{where}: {value!r:.60} is no length of time; expected one such as '5s'")
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
    return int(1e9 * sum(float(number) * units[unit] for number, unit in parts))


def beside_of(compose: Compose, seconds: float) -> SideServices:
    """Return the side services of a compose file, with `seconds` to build and start them, and root's capabilities."""
    return replace(compose.beside, seconds=seconds, capabilities=ROOT_CAPABILITIES)
