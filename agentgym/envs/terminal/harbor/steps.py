"""The parts of a Harbor task: containers, and steps, each with a phase of the agent and a phase of the verifier.

A task without `[[steps]]` is one unnamed step.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agentgym.envs.terminal.harbor import tables
from agentgym.envs.terminal.harbor.artifacts import Artifact, Hook, artifacts_in, hooks_in
from agentgym.envs.terminal.harbor.compose import beside_of, compose_in
from agentgym.envs.terminal.harbor.health import Health, health_in
from agentgym.envs.terminal.harbor.network import Policy, baseline, policy
from agentgym.errors import BadData
from agentgym.sandbox.docker.images import is_name
from agentgym.sandbox.docker.services import SideServices

MODES = ("shared", "separate")
_NAME = re.compile(r"[^<>:\"/\\|?*\x00-\x1f\x7f]{1,100}")


@dataclass(frozen=True)
class Place:
    """A container: its image and limits; None means no limit."""

    image: str
    """Name of an existing image; empty: build the image from `build`."""
    build: Path
    """Folder with the Dockerfile."""
    work: str
    """Working directory of commands."""
    cpus: float | None = None
    memory_mb: float | None = None
    storage_mb: float | None = None
    build_seconds: float = 600.0
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    health: Health | None = None
    network: Policy = field(default_factory=Policy)
    """Network policy of phases that do not state a policy."""
    command: tuple[str, ...] = ()
    """Program that runs from the start of the container; empty: none."""
    beside: SideServices | None = None
    """Side services in other containers."""


@dataclass(frozen=True)
class Verifier:
    """The verifier of a step."""

    seconds: float = 600.0
    user: str = ""
    """User that runs the tests; empty: the image's user."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    network: Policy = field(default_factory=Policy)
    place: Place | None = None
    """Separate container of the verifier; None: the agent's container."""
    bundled: bool = False
    """True if the separate container's image contains `/tests`."""


@dataclass(frozen=True)
class Step:
    """A phase of the agent, and the verification of its result."""

    name: str
    instruction: str
    tests: tuple[Path, ...]
    """Folders to copy into `/tests`; later ones overwrite files of earlier ones."""
    solution: Path | None
    """Folder with `solve.sh`; None without a solution."""
    workdir: Path | None
    """Folder copied to the working directory before the agent begins; its `setup.sh`, if any, then runs. None: nothing."""
    seconds: float | None
    """Limit on the total seconds of the agent's commands; None: no limit."""
    user: str
    """The agent's user; empty: the image's user."""
    network: Policy
    verifier: Verifier
    health: Health | None = None
    """Additional check that must succeed before the agent begins."""
    min_reward: Mapping[str, float] = field(default_factory=dict[str, float])
    """Minimum of each metric; the task ends after this step if a metric is lower or missing."""
    artifacts: tuple[Artifact, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def stops(self, rewards: Mapping[str, float]) -> bool:
        """Return True if the step's rewards are too low (`min_reward`) for the task to continue."""
        return any(rewards.get(name, float("-inf")) < least for name, least in self.min_reward.items())


def place_in(raw: tables.Table, build: Path, name: str, file: Path, inherited: str = "", *, beside: bool = False) -> Place:
    """Return the container that an environment's table describes.

    `inherited` is the default image. With `beside`, the compose file in `build` is read, too.

    Raises:
        BadData: the image's name is malformed, or there is neither an image nor a Dockerfile.
    """
    compose = compose_in(build, tables.resolved(tables.variables(raw, name, file), name, file)) if beside else None
    image = tables.text(raw, "docker_image", file) or inherited or (compose.image if compose else "")
    if image and not is_name(image):
        raise BadData(f"{file}: the image is {image!r:.100}; expected a name such as python:3.12-slim")
    build = compose.build if compose and compose.build else build
    dockerfile = build / "Dockerfile"
    building = tables.number(raw, "build_timeout_sec", file) or 600.0
    if not image and not dockerfile.is_file():
        raise BadData(f"{file.parent}: neither {build.name}/Dockerfile nor docker_image in [{name}]; expected one of them")
    written = dockerfile.read_text(encoding="utf-8-sig", errors="replace") if dockerfile.is_file() else ""
    return Place(
        image=image,
        build=build,
        work=_work(tables.text(raw, "workdir", file) or (compose.work if compose else "") or _last_workdir(written), file),
        cpus=tables.number(raw, "cpus", file),
        memory_mb=tables.size(raw, "memory_mb", "memory", file),
        storage_mb=tables.size(raw, "storage_mb", "storage", file),
        build_seconds=building,
        variables={**((compose.environment if compose else None) or {}), **tables.variables(raw, name, file)},
        health=health_in(raw, file),
        network=baseline(raw, name, file),
        command=compose.command if compose else (),
        beside=beside_of(compose, building) if compose else None,
    )


@dataclass(frozen=True)
class Reader:
    """Parses the steps of one `task.toml`."""

    file: Path
    raw: tables.Table
    place: Place

    def steps(self) -> tuple[Step, ...]:
        """Return the task's steps.

        Raises:
            BadData: two steps have the same name.
        """
        listed = tables.tables(self.raw, "steps", self.file)
        steps = tuple(self._step(entry) for entry in listed) or (self._step(None),)
        names = [step.name.casefold() for step in steps]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise BadData(f"{self.file}: two steps are called {twice!r}")
        return steps

    def _step(self, own: tables.Table | None) -> Step:
        folder, entry = self.file.parent, own or {}
        name = ""
        if own is not None:
            name = tables.text(entry, "name", self.file)
            if not _NAME.fullmatch(name) or name.strip(" .") != name:
                raise BadData(f"{self.file}: a step is called {name!r:.60}; expected the name of a folder in steps/")
            folder = folder / "steps" / name
            if not folder.is_dir():
                raise BadData(f"{self.file}: there is no folder steps/{name} for the step of that name")
        agents = self._levels(entry, "agent")
        shared = (self.file.parent / "tests", folder / "tests") if own is not None else (folder / "tests",)
        solutions = [path for path in (folder / "solution", self.file.parent / "solution") if (path / "solve.sh").is_file()]
        return Step(
            name=name,
            instruction=instruction_in(folder / "instruction.md"),
            tests=tuple(path for path in shared if path.is_dir()),
            solution=solutions[0] if solutions else None,
            workdir=folder / "workdir" if own is not None and (folder / "workdir").is_dir() else None,
            seconds=next((found for raw in agents if (found := tables.number(raw, "timeout_sec", self.file))), None),
            user=next((found for raw in agents if (found := tables.text(raw, "user", self.file))), ""),
            network=self._phase(agents, "agent") or self.place.network,
            verifier=self._verifier(entry, folder, own is not None),
            health=health_in(entry, self.file),
            min_reward=self._least(entry),
            artifacts=artifacts_in(self.raw, self.file) + (artifacts_in(entry, self.file) if own is not None else ()),
            hooks=tuple(hook for raw in reversed(self._levels(entry, "verifier")) for hook in hooks_in(raw, self.file)),
        )

    def _levels(self, entry: tables.Table, name: str) -> list[tables.Table]:
        """Return the table `name` of the step, then the table `name` of the task."""
        return [tables.table(entry, name, self.file), tables.table(self.raw, name, self.file)]

    def _phase(self, levels: Sequence[tables.Table], name: str) -> Policy | None:
        return next((found for raw in levels if (found := policy(raw, name, self.file))), None)

    def _verifier(self, entry: tables.Table, folder: Path, named: bool) -> Verifier:
        levels = self._levels(entry, "verifier")
        place, bundled = self._place_of(levels, folder, named)
        if not bundled and not any((path / "tests" / "test.sh").is_file() for path in (folder, self.file.parent)):
            raise BadData(f"{folder}: no tests/test.sh, which decides the reward")
        # As in Harbor, a step has its own time limit or the format's default, never the task's.
        seconds = tables.number(levels[0] if named else levels[1], "timeout_sec", self.file)
        return Verifier(
            seconds=seconds or 600.0,
            user=next((found for raw in levels if (found := tables.text(raw, "user", self.file))), ""),
            variables={k: v for raw in reversed(levels) for k, v in tables.variables(raw, "verifier", self.file).items()},
            network=self._phase(levels, "verifier") or (place or self.place).network,
            place=place,
            bundled=bundled,
        )

    def _place_of(self, levels: Sequence[tables.Table], folder: Path, named: bool) -> tuple[Place | None, bool]:
        """Return the verifier's separate container (None if it has none), and True if its image contains the tests.

        Raises:
            BadData: the verifier needs several containers.
        """
        mode = next((found for raw in levels if (found := self._mode(raw))), "shared")
        if mode == "shared":
            return None, False
        own = next((tables.table(raw, "environment", self.file) for raw in levels if "environment" in raw), None)
        refuse_hardware(own or {}, self.file)
        for raw, tests in zip(levels, (folder / "tests", self.file.parent / "tests"), strict=True):
            stated = tables.table(raw, "environment", self.file)
            if image := tables.text(stated, "docker_image", self.file):
                return place_in({**(own or {}), "docker_image": image}, tests, "verifier.environment", self.file), True
            if (tests / "docker-compose.yaml").is_file():
                raise BadData(f"{tests}: several containers for the verifier, which rlvr/Harbor-v0 has not")
            if (tests / "Dockerfile").is_file():
                return place_in({**(own or {}), "docker_image": ""}, tests, "verifier.environment", self.file), True
        if own is None:
            return self.place, False
        fresh = place_in(own, self.place.build, "verifier.environment", self.file, self.place.image)
        return fresh, False

    def _mode(self, raw: tables.Table) -> str:
        mode = raw.get("environment_mode")
        if mode is not None and mode not in MODES:
            raise BadData(f"{self.file}: environment_mode is {mode!r:.60}; expected {' or '.join(MODES)}")
        if mode == "shared" and "environment" in raw:
            raise BadData(
                f"{self.file}: a verifier with environment_mode 'shared' has an environment; leave one of them out"
            )
        return str(mode or ("separate" if "environment" in raw else ""))

    def _least(self, entry: tables.Table) -> dict[str, float]:
        value = entry.get("min_reward")
        thresholds: dict[str, object] = cast("dict[str, object]", value) if isinstance(value, dict) else {"reward": value}
        if value is None:
            return {}
        for name, least in thresholds.items():
            if isinstance(least, bool) or not isinstance(least, int | float):
                raise BadData(f"{self.file}: min_reward of {name} is {least!r:.60}; expected a number")
        return {name: float(cast("float", least)) for name, least in thresholds.items()}


def refuse_hardware(raw: tables.Table, file: Path) -> None:
    """Check that a task does not need GPUs, TPUs or Windows, which containers lack; results would be wrong without them.

    Raises:
        BadData: the task asks for such hardware.
    """
    absent = {
        "GPUs": bool(raw.get("gpus")),
        "TPUs": bool(raw.get("tpu")),
        "Windows": str(raw.get("os", "linux")).lower() != "linux",
    }
    for what, requested in absent.items():
        if requested:
            raise BadData(
                f"{file.parent}: the task asks for {what}, which rlvr/Harbor-v0 has not; leave it out of the folder"
            )


def instruction_in(file: Path) -> str:
    """Return a file's instruction without leading canary lines.

    Raises:
        BadData: the file is missing, empty or not UTF-8.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise BadData(f"{file} is missing: expected the task in words") from None
    except UnicodeDecodeError as error:
        raise BadData(f"{file}: {error}; expected UTF-8") from error
    while lines and (not lines[0].strip() or re.match(r"(<!--|#).*canary", lines[0], re.IGNORECASE)):
        del lines[0]
    if not lines:
        raise BadData(f"{file} is empty: expected the task in words")
    return "\n".join(lines).strip()


def _last_workdir(dockerfile: str) -> str:
    """Return the working directory at the end of a Dockerfile's last stage; empty if not set."""
    work = ""
    for line in dockerfile.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "FROM":
            work = ""
        elif word.upper() == "WORKDIR":
            path = rest.strip().strip("\"'")
            work = path if path.startswith("/") else f"{work.rstrip('/')}/{path}"
    return work


def _work(path: str, file: Path) -> str:
    path = path or "/app"
    if "$" in path or not path.startswith("/"):
        raise BadData(f"{file}: the working folder is {path!r}; say which in workdir of [environment], as an absolute path")
    return "/root" if path == "/" else path
