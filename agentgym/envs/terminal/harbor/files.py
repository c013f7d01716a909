"""Harbor task folders (Terminal-Bench): parsing and validation.

A folder contains `task.toml`, `instruction.md`, `environment/Dockerfile` (or `docker_image` in task.toml), `tests/test.sh`
and, optionally, `solution/solve.sh`. With `[[steps]]`, `steps/` has such a folder for each step. Format:
https://harborframework.com/docs/tasks (names and defaults of its version 1; `version`, `memory` and `storage` are older
spellings). Unknown keys are ignored, as in Harbor.
"""

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.envs.terminal.harbor import tables
from agentgym.envs.terminal.harbor.artifacts import MAIN
from agentgym.envs.terminal.harbor.servers import Server, servers_in
from agentgym.envs.terminal.harbor.steps import Place, Reader, Step, place_in, refuse_hardware
from agentgym.errors import BadData

DIFFICULTIES = {"easy": 0, "medium": 1, "hard": 2}
STRATEGIES = ("mean", "final")


@dataclass(frozen=True)
class HarborTask:
    """One task folder."""

    folder: Path
    difficulty: int
    """0, 1 or 2 for `easy`, `medium` and `hard` in the metadata; 0 for anything else."""
    place: Place
    """The agent's container."""
    steps: tuple[Step, ...]
    strategy: str = "mean"
    """Reward of a task with several steps: the `mean` of the steps' rewards, or the reward of the `final` step."""
    skills: str = ""
    """Folder in the image with skills for the agent; empty: none."""
    solution_env: Mapping[str, str] = field(default_factory=dict[str, str])
    servers: tuple[Server, ...] = ()
    """MCP servers for the agent."""

    @property
    def name(self) -> str:
        """Task id: the folder's name."""
        return self.folder.name

    @property
    def file(self) -> Path:
        """Path of the folder's `task.toml`."""
        return self.folder / "task.toml"

    @property
    def instruction(self) -> str:
        """Instruction of the first step."""
        return self.steps[0].instruction

    @property
    def solved(self) -> bool:
        """True if every step has a solution."""
        return all(step.solution for step in self.steps)

    @property
    def longest(self) -> float:
        """Maximum seconds for creating the task's containers and judging one step."""
        places = [self.place, *(step.verifier.place for step in self.steps if step.verifier.place)]
        checks = [place.health for place in places] + [step.health for step in self.steps]
        building = sum(place.build_seconds * (2 if place.beside else 1) for place in places) + sum(
            check.longest for check in checks if check
        )
        return building + max(step.verifier.seconds for step in self.steps)

    def fingerprint(self) -> str:
        """Return a hash of all files in the folder: names, executable bits and contents."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            what = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            line = f"{path.relative_to(self.folder)} {os.access(path, os.X_OK)} {hashlib.sha256(what).hexdigest()}\n"
            digest.update(line.encode())
        return digest.hexdigest()

    def hidden(self) -> dict[str, str]:
        """Return the files that the agent must not find, test scripts and solutions: SHA-256 hash -> path."""
        hashes = dict[str, str]()
        tests = {path: (".py", ".sh") for step in self.steps for path in step.tests}
        solutions = {step.solution: () for step in self.steps if step.solution}
        for part, suffixes in {**tests, **solutions}.items():
            for path in sorted(part.rglob("*")):
                wanted = path.is_file() and not path.is_symlink() and (not suffixes or path.suffix in suffixes)
                if wanted and path.stat().st_size >= 16:
                    hashes[hashlib.sha256(path.read_bytes()).hexdigest()] = str(path.relative_to(self.folder))
        return hashes


def packed(folders: Sequence[Path]) -> bytes:
    """Return a tar archive that merges folders (a later file wins), readable by every user; links stay links."""
    files = {path.relative_to(folder): path for folder in folders for path in sorted(folder.rglob("*"))}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, path in sorted(files.items()):
            member = archive.gettarinfo(path, str(name))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = "root"
            member.mode |= 0o555 if path.suffix == ".sh" or member.isdir() else 0o444
            if member.isreg() or member.islnk():
                member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
                archive.addfile(member, io.BytesIO(path.read_bytes()))
            elif member.isdir() or member.issym():
                archive.addfile(member)
    return buffer.getvalue()


def load(path: Path) -> dict[str, HarborTask]:
    """Return tasks by name: `path` itself if it is a task folder, else the task folders directly below it.

    Raises:
        BadData: the folder is missing or has no task, or a file is malformed.
    """
    if not path.is_dir():
        raise BadData(f"no folder {str(path)!r}: expected a Harbor task folder, or a folder of them")
    if (path / "task.toml").exists():
        return {path.name: _task(path)}
    tasks = {entry.name: _task(entry) for entry in sorted(path.iterdir()) if (entry / "task.toml").exists()}
    if not tasks:
        raise BadData(f"{path} holds no task: expected task.toml in it or in a folder directly below it")
    return tasks


def _task(folder: Path) -> HarborTask:
    file = folder / "task.toml"
    raw = tables.toml(file)
    _stay_within(folder)
    environment = tables.table(raw, "environment", file)
    refuse_hardware(environment, file)
    place = place_in(environment, folder / "environment", "environment", file, beside=True)
    strategy = tables.text(raw, "multi_step_reward_strategy", file) or "mean"
    if strategy not in STRATEGIES:
        raise BadData(f"{file}: multi_step_reward_strategy is {strategy!r:.60}; expected {' or '.join(STRATEGIES)}")
    steps = Reader(file, raw, place).steps()
    _check_services(place, steps, file)
    return HarborTask(
        folder=folder,
        difficulty=DIFFICULTIES.get(str(tables.table(raw, "metadata", file).get("difficulty", "")).lower(), 0),
        place=place,
        steps=steps,
        strategy=strategy,
        skills=tables.text(environment, "skills_dir", file),
        solution_env=tables.variables(tables.table(raw, "solution", file), "solution", file),
        servers=servers_in(environment, file),
    )


def _check_services(place: Place, steps: Sequence[Step], file: Path) -> None:
    present = {MAIN, *(service.name for service in (place.beside.services if place.beside else ()))}
    referenced = {part.service for step in steps for part in (*step.artifacts, *step.hooks)}
    if absent := sorted(referenced - present):
        raise BadData(f"{file}: service is {absent[0]!r:.60}; expected one of {sorted(present)}")


def _stay_within(folder: Path) -> None:
    """Check that no link leads out of a task folder, since files from this machine would get into a container.

    Raises:
        BadData: a link leads out of the folder.
    """
    home = folder.resolve()
    ours = [part for name in ("Dockerfile", "docker-compose.y*ml") for part in folder.rglob(name)]  # parsed on this machine
    for part in [*folder.iterdir(), *folder.glob("steps/*"), *folder.glob("steps/*/*"), *ours]:
        if part.is_symlink() and not part.resolve().is_relative_to(home):
            raise BadData(f"{part} is a link that leads out of the task's folder; put a copy there")
