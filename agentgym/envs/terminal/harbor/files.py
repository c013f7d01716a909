"""Task folders of Harbor (Terminal-Bench 2): read, checked, and told what is wrong with them.

A folder holds `task.toml`, `instruction.md`, `environment/Dockerfile` (or `docker_image` in task.toml), `tests/test.sh`
and, as wanted, `solution/solve.sh`. Format: https://harborframework.com/docs/tasks (names and defaults of its version 1;
`version`, `memory` and `storage` are older spellings). Keys that are not known are left alone, as Harbor does.
"""

import hashlib
import io
import math
import os
import re
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentgym.envs.terminal.harbor.health import Health, health_in
from agentgym.envs.terminal.harbor.network import Policy, policies
from agentgym.errors import BadData

DIFFICULTIES = {"easy": 0, "medium": 1, "hard": 2}
_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024}


@dataclass(frozen=True)
class HarborTask:
    """One task folder."""

    folder: Path
    instruction: str
    difficulty: int
    """0, 1 or 2 for `easy`, `medium` and `hard` in the metadata."""
    image: str
    """Name of a ready image; empty where the Dockerfile is to be built."""
    work: str
    """Where commands begin."""
    user: str
    agent_seconds: float | None
    """Seconds that all commands may take together; None for no limit. So are the next ones but the verifier's."""
    cpus: float | None
    memory_mb: float | None
    verifier_seconds: float = 600.0
    build_seconds: float = 600.0
    """Seconds that building the image may take."""
    network: Policy = field(default_factory=Policy)
    """What the agent may reach."""
    verifier_network: Policy = field(default_factory=Policy)
    skills: str = ""
    """A folder of the image with skills for the agent."""
    health: Health | None = None
    """What must succeed before the agent begins."""
    verifier_env: Mapping[str, str] = field(default_factory=dict[str, str])
    solution_env: Mapping[str, str] = field(default_factory=dict[str, str])
    environment_env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The task's id: the folder's name."""
        return self.folder.name

    @property
    def solved(self) -> bool:
        """Whether it has a solution."""
        return (self.folder / "solution" / "solve.sh").is_file()

    def fingerprint(self) -> str:
        """Return the hash of all files of the folder, their names and modes."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            what = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            told = f"{path.relative_to(self.folder)} {os.access(path, os.X_OK)} {hashlib.sha256(what).hexdigest()}\n"
            digest.update(told.encode())
        return digest.hexdigest()

    def hidden(self) -> dict[str, str]:
        """Return what an agent must not find, by hash: scripts of the tests, and the solution."""
        hashes = dict[str, str]()
        for part, suffixes in (("tests", (".py", ".sh")), ("solution", ())):
            for path in sorted((self.folder / part).rglob("*")):
                if path.is_file() and (not suffixes or path.suffix in suffixes) and path.stat().st_size >= 16:
                    hashes[hashlib.sha256(path.read_bytes()).hexdigest()] = str(path.relative_to(self.folder))
        return hashes

    def packed(self, part: str) -> bytes:
        """Return a tar archive of a folder of the task (`tests`, `solution`); links stay links."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted((self.folder / part).rglob("*")):
                member = archive.gettarinfo(path, str(path.relative_to(self.folder / part)))
                member.uid = member.gid = member.mtime = 0
                member.uname = member.gname = "root"
                if path.suffix == ".sh":
                    member.mode |= 0o111
                if member.isreg():
                    archive.addfile(member, io.BytesIO(path.read_bytes()))
                elif member.isdir() or member.issym():
                    archive.addfile(member)
        return buffer.getvalue()


def load(path: Path) -> dict[str, HarborTask]:
    """Return the tasks of a folder by name: it is one, or holds some. BadData says what is wrong, and in which file."""
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
    raw = _toml(file)
    tables = {name: _table(raw, name, file) for name in ("metadata", "agent", "verifier", "environment", "solution")}
    agent, verifier, environment = tables["agent"], tables["verifier"], tables["environment"]
    _refuse(folder, raw, verifier, environment)
    image = _text(environment, "docker_image", file)
    dockerfile = folder / "environment" / "Dockerfile"
    if not image and not dockerfile.is_file():
        raise BadData(f"{folder}: neither environment/Dockerfile nor docker_image in task.toml; expected one of them")
    if not (folder / "tests" / "test.sh").is_file():
        raise BadData(f"{folder}: no tests/test.sh, which decides the reward")
    users = {_text(table, "user", file) or "root" for table in (agent, verifier)}
    if len(users) > 1:
        raise BadData(f"{file}: agent and verifier are different users ({', '.join(sorted(users))}); expected one for both")
    build = dockerfile.read_text(encoding="utf-8-sig", errors="replace") if dockerfile.is_file() else ""
    network, verifier_network = policies(tables, file)
    return HarborTask(
        network=network,
        verifier_network=verifier_network,
        health=health_in(environment, file),
        skills=_text(environment, "skills_dir", file),
        folder=folder,
        instruction=_instruction(folder / "instruction.md"),
        difficulty=DIFFICULTIES.get(str(tables["metadata"].get("difficulty", "")).lower(), 0),
        image=image,
        work=_work(_text(environment, "workdir", file) or _last_workdir(build), file),
        user=users.pop(),
        agent_seconds=_number(agent, "timeout_sec", file),
        cpus=_number(environment, "cpus", file),
        memory_mb=_size(environment, "memory_mb", "memory", file),
        verifier_seconds=_number(verifier, "timeout_sec", file) or 600.0,
        build_seconds=_number(environment, "build_timeout_sec", file) or 600.0,
        verifier_env=_variables(verifier, "verifier", file),
        solution_env=_variables(tables["solution"], "solution", file),
        environment_env=_variables(environment, "environment", file),
    )


def _refuse(folder: Path, raw: dict[str, object], verifier: dict[str, object], environment: dict[str, object]) -> None:
    """Refuse what this environment has not; a task that is played otherwise than it was meant would give a wrong number."""
    compose = any((folder / "environment" / f"docker-compose.{end}").exists() for end in ("yaml", "yml"))
    absent = {
        "several containers (docker-compose)": compose,
        "steps": bool(raw.get("steps")),
        "a container of its own for the verifier": verifier.get("environment_mode") == "separate"
        or verifier.get("environment") is not None,
        "hooks that collect files": bool(verifier.get("collect")),
        "GPUs": bool(environment.get("gpus")),
        "TPUs": bool(environment.get("tpu")),
        "MCP servers": bool(environment.get("mcp_servers")),
        "Windows": str(environment.get("os", "linux")).lower() != "linux",
    }
    for what, asked in absent.items():
        if asked:
            raise BadData(f"{folder}: the task asks for {what}, which rlvr/Harbor-v0 has not; leave it out of the folder")


def _toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{file}: {error}; expected TOML in UTF-8") from error


def _instruction(file: Path) -> str:
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


def _table(raw: dict[str, object], name: str, file: Path) -> dict[str, Any]:
    value = raw.get(name, {})
    if not isinstance(value, dict):
        raise BadData(f"{file}: {name} is {value!r:.60}; expected a table [{name}]")
    return cast("dict[str, object]", value)


def _text(table: dict[str, object], key: str, file: Path) -> str:
    value = table.get(key, "")
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise BadData(f"{file}: {key} is {value!r:.60}; expected a text")
    return str(value)


def _number(table: dict[str, object], key: str, file: Path) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadData(f"{file}: {key} is {value!r:.60}; expected a number above 0")
    return float(value)


def _size(table: dict[str, object], key: str, older: str, file: Path) -> float | None:
    """Return megabytes, from a number or from an older text like `2G`; both must say the same."""
    megabytes = _number(table, key, file)
    if not isinstance(text := table.get(older), str):
        return megabytes
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMG])\s*", text, re.IGNORECASE)
    if match is None or not float(match[1]):
        raise BadData(f"{file}: {older} is {text!r:.60}; expected a size such as '2G', or {key} = 2048")
    size = float(int(float(match[1]) * _UNITS[match[2].upper()]))
    if megabytes not in (None, size):
        raise BadData(f"{file}: {older} is {text!r} ({size:g} MB), but {key} is {megabytes:g}; leave one of them out")
    return size


def _variables(table: dict[str, object], name: str, file: Path) -> dict[str, str]:
    value: object = table.get("env") or {}
    if not isinstance(value, dict):
        raise BadData(f"{file}: env of [{name}] is {value!r:.60}; expected a table of texts")
    return {str(key): str(text) for key, text in cast("dict[str, object]", value).items()}


def _last_workdir(dockerfile: str) -> str:
    """Return where the last stage of a Dockerfile ends up, as its WORKDIR lines say."""
    work = ""
    for line in dockerfile.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "FROM":
            work = ""
        elif word.upper() == "WORKDIR":
            place = rest.strip().strip("\"'")
            work = place if place.startswith("/") else f"{work.rstrip('/')}/{place}"
    return work


def _work(path: str, file: Path) -> str:
    path = path or "/app"
    if "$" in path or not path.startswith("/"):
        raise BadData(f"{file}: the working folder is {path!r}; say which in workdir of [environment], as an absolute path")
    return "/root" if path == "/" else path
