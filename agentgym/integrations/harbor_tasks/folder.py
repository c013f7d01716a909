"""Write tasks of an environment as Harbor task folders (format 1.4)."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Template

import agentgym
from agentgym import registry
from agentgym.core.env import TextEnv
from agentgym.core.folders import check_folder
from agentgym.core.tasks import Task
from agentgym.episodes.stored_env import stored_settings
from agentgym.errors import BadConfig
from agentgym.integrations.harbor_tasks.guesses import unguessed
from agentgym.integrations.harbor_tasks.kinds import PACKED, SANDBOX, Files, calls, kind_of
from agentgym.integrations.harbor_tasks.leaks import leaks
from agentgym.integrations.harbor_tasks.serve import HOST, PORT, SESSION
from agentgym.integrations.harbor_tasks.task_file import RESULTS, TaskFile
from agentgym.integrations.harbor_tasks.wheel import pinned, requirements, wheel
from agentgym.rollout.session import Session
from agentgym.sandbox.docker.images import is_name
from agentgym.sandbox.env import SandboxEnv

BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim-bookworm"
"""Default base image of the folders' Dockerfiles."""
LONG = 10_000
"""Upper bound on the turns of a solution; an environment's horizon ends it earlier."""
_TEMPLATES = files("agentgym.scaffold").joinpath("files", "harbor")


@dataclass(frozen=True)
class ExportSpec:
    """The environment to export, and settings shared by all its task folders."""

    env: str
    """Id or short name of the environment."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    seed: int = 0
    """Seed of every task's episode."""
    base: str = BASE
    skip_guessed: bool = False
    """Skip tasks that one of the environment's own shortcut policies solves."""


def write(wanted: ExportSpec, tasks: int | Mapping[str, str], out: Path) -> list[Path]:
    """Write one folder per task into `out`, which must be new or empty; return the paths of the task folders.

    `tasks` is the number of tasks to take from the environment's list, or a mapping from task ids to the first observations
    with which these tasks must begin.

    Raises:
        BadConfig: `out` is not empty, the environment is not one of agentgym's own, an option is a setting of this machine,
            a task begins with another observation, the oracle does not solve a task, shortcut policies solve too many
            tasks, or a file that the agent can read contains part of the answer.
    """
    id = registry.full_id(wanted.env)
    if id not in registry.ENVS:
        raise BadConfig(f"{id} is not one of agentgym's own environments, and the folders' images have agentgym alone")
    if not is_name(wanted.base):
        raise BadConfig(f"base is {wanted.base!r}; expected the name of an image, such as {BASE}")
    check_folder(out)
    if out.is_dir() and any(out.iterdir()):
        raise BadConfig(f"{out} is not empty; choose another folder with --out, or remove it")
    if theirs := stored_settings(id, wanted.options):
        raise BadConfig(f"--{theirs[0].flag} of {id} is a setting of this machine, which the folders' images have not")
    env = registry.make(id, **wanted.options)
    try:
        folders: list[Path] = []
        for task in _chosen(env, tasks, wanted):
            if not isinstance(tasks, int) and Session(env).reset(task, seed=wanted.seed) != tasks[task.id]:
                raise BadConfig(
                    f"task {task.id} of {id} does not begin as in the run; give the run's own options with --env.KEY, and "
                    "its seed with --seed"
                )
            folders.append(out / _name(id, task, [folder.name for folder in folders]))
            _write(folders[-1], contents(wanted, env, task, folders[-1].name), folders[0])
        return folders
    finally:
        env.close()


def _chosen(env: TextEnv, tasks: int | Mapping[str, str], wanted: ExportSpec) -> Iterable[Task]:
    """Yield the tasks to write: the first `tasks` of the environment's list, or the tasks with the ids in `tasks`.

    With `skip_guessed`, the list has only tasks that no shortcut policy solves.
    """
    if not isinstance(tasks, int):
        return map(env.find, tasks)
    return unguessed(env, tasks, wanted.seed) if wanted.skip_guessed else env.tasks(tasks)


def contents(wanted: ExportSpec, env: TextEnv, task: Task, name: str) -> dict[str, bytes]:
    """Play the oracle's solution of a task and return the files of the task's folder by path.

    Raises:
        BadConfig: the agent could read part of the answer.
    """
    id = registry.full_id(wanted.env)
    first, actions = _solved(env, task, wanted.seed)
    Session(env).reset(task, seed=wanted.seed)
    kind = kind_of(env)
    facts = TaskFile(id, task.id, wanted.seed, {**wanted.options, **_options_inside(env)}, served=kind is None)
    values = {"base": wanted.base, "name": name, **_about(facts, task)}
    made = _of_files(env, kind, values) if kind else _of_service(env, first, values)
    made |= {"solution/solve.sh": _script(solution(env, actions)), "tests/test.sh": _template("test.sh", values)}
    if kind is None:
        made["solution/actions.jsonl"] = "".join(json.dumps(action) + "\n" for action in actions).encode()
    places = ["tests"] if kind else ["tests", "environment/service"]
    package, content = wheel()
    for place in places:
        extras = ["mcp"] if place != "tests" else []
        lines = requirements(*extras) + "".join(f"{pinned(name)}\n" for name in (kind.packages if kind else ()))
        made[f"{place}/{package}"] = content
        made[f"{place}/requirements.txt"] = lines.encode()
        made[f"{place}/task.json"] = _json(facts)
        made[f"{place}/Dockerfile"] = _template("verifier.Dockerfile" if place == "tests" else "service.Dockerfile", values)
    if found := leaks(env, made, actions):
        raise BadConfig(f"task {task.id} of {id} cannot be exported: {found[0]}")
    return made


def _options_inside(env: TextEnv) -> Mapping[str, object]:
    """Return the options that the environment gets inside the images, in addition to the caller's."""
    if kind := kind_of(env):
        return kind.options
    return SANDBOX if isinstance(env, SandboxEnv) else {}


def solution(env: TextEnv, actions: Sequence[str]) -> str:
    """Return a shell script that carries out `actions` in the agent's container; `env` has begun the task."""
    kind = kind_of(env)
    return kind.solve(env, calls(env, actions)) if kind else 'act --lines "$(dirname "$0")/actions.jsonl"'


def _of_files(env: TextEnv, kind: Files, values: Mapping[str, str]) -> dict[str, bytes]:
    pythons = [pinned(name) for name in kind.packages]
    install = f"RUN python3 -m pip install --no-cache-dir {' '.join(pythons)}\n" if pythons else ""
    steps = {"steps": install + kind.lines, "work": kind.work}
    hook = ""
    if kind.packed:
        pack = f"rm -rf {PACKED}; tar --format=pax -C {Path(kind.work).parent} -cf {PACKED} {kind.packed}"
        hook = f'[[verifier.collect]]\ncommand = {_toml(pack)}\nuser = "root"\n'
    parts = {
        "artifacts": _toml(list(kind.artifacts)),
        "servers": "",
        "health": "",
        "user": f'user = "{kind.user}"\n' if kind.user else "",
        "hook": hook,
    }
    return {
        "instruction.md": f"{kind.instruction(env)}\n".encode("utf-8", "backslashreplace"),
        "task.toml": _template("task.toml", {**values, **parts}),
        "environment/Dockerfile": _template("agent.Dockerfile", {**values, **steps}),
        **{f"environment/{path}": content for path, content in kind.image(env).items()},
    }


def _of_service(env: TextEnv, first: str, values: Mapping[str, str]) -> dict[str, bytes]:
    url = f"http://{HOST}:{PORT}/mcp?session={SESSION}"
    parts = {
        "artifacts": f'[{{ source = "{RESULTS.parent}", service = "agentgym" }}]',
        "servers": f'\n[[environment.mcp_servers]]\nname = "agentgym"\ntransport = "streamable-http"\nurl = "{url}"\n',
        "health": '\n[environment.healthcheck]\ncommand = "act --ready"\ninterval_sec = 1\nretries = 60\n',
        "user": "",
        "hook": "",
    }
    return {
        "instruction.md": _instruction(env, first).encode("utf-8", "backslashreplace"),
        "task.toml": _template("task.toml", {**values, **parts}),
        "environment/Dockerfile": _template("client.Dockerfile", values),
        "environment/.dockerignore": b"service\n",
        "environment/act": _template("act.py", {"host": HOST, "port": str(PORT)}),
        "environment/docker-compose.yaml": _template("docker-compose.yaml", values),
    }


def _instruction(env: TextEnv, first: str) -> str:
    """Return the agent's instruction: the first observation, and how to send actions to the environment's container."""
    if env.tools:
        calls = "\n".join(
            f"- `{tool.name}`: {' '.join(tool.description.split())} Arguments: `{json.dumps(dict(tool.parameters))}`"
            for tool in env.tools.values()
        )
        how = (
            "The tools are those of the MCP server `agentgym`. From a shell, `act` calls one and prints the answer:\n\n"
            '    act \'{"name": "TOOL", "arguments": {…}}\'\n\n' + calls
        )
    else:
        how = (
            "Each action is one command. The MCP server `agentgym` has the tool `act` for it. From a shell, `act` does the "
            "same and prints the answer:\n\n    act 'COMMAND'"
        )
    ends = f"The episode ends when the task is decided, after {env.limit} actions at the latest. There is one try."
    return f"{first}\n\n{how}\n\n{ends}\n"


def _solved(env: TextEnv, task: Task, seed: int) -> tuple[str, list[str]]:
    """Play the oracle; return the first observation and the oracle's actions.

    Raises:
        BadConfig: there is no oracle, or it does not solve the task.
    """
    session = Session(env)
    first, actions = session.reset(task, seed=seed), list[str]()
    try:
        for action in islice(iter(env.oracle()), LONG):
            if session.done:
                break
            actions.append(action)
            session.act(action)
    except NotImplementedError as error:
        raise BadConfig(f"task {task.id} has no solution that an oracle knows: {error}") from None
    if not session.success:
        why = session.error or session.reason or "it gives up"
        raise BadConfig(f"the oracle does not solve task {task.id} ({why}); a folder needs a solution")
    return first, actions


def _about(facts: TaskFile, task: Task) -> dict[str, str]:
    """Return values for the `task.toml` template: a description and metadata of the task, as TOML text."""
    metadata = {
        "environment": facts.env,
        "task": task.id,
        "split": task.split,
        "difficulty": task.difficulty,
        "seed": facts.seed,
        "version": agentgym.__version__,
        "license": "Apache-2.0",
    }
    description = registry.DESCRIPTIONS.get(facts.env) or facts.env
    lines = "".join(f"{key} = {_toml(value)}\n" for key, value in metadata.items())
    return {"description": _toml(description), "metadata": lines}


def _name(id: str, task: Task, others: Sequence[str]) -> str:
    """Return a folder name for a task: lowercase, safe for file systems and image registries, and not in `others`."""
    stem = id.rpartition("/")[2].removesuffix("-v0")
    name = re.sub(r"[^a-z0-9]+", "-", f"{stem}-{task.id}".lower()).strip("-")[:80]
    return name if name not in others else f"{name[:60]}-{hashlib.sha256(task.id.encode()).hexdigest()[:12]}"


def _write(folder: Path, contents: Mapping[str, bytes], first: Path) -> None:
    """Write the files of a task folder; the wheel is a hard link to the one in the folder `first` if possible."""
    for path, content in contents.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".whl") and (first / "tests" / place.name).exists():
            try:
                os.link(first / "tests" / place.name, place)
                continue
            except OSError:
                pass
        place.write_bytes(content)
        if path.endswith(".sh"):
            place.chmod(0o755)


def _script(body: str) -> bytes:
    return f"#!/bin/bash\n{body}\n".encode("utf-8", "surrogateescape")


def _template(name: str, values: Mapping[str, str]) -> bytes:
    text = _TEMPLATES.joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values).encode()


def _json(facts: TaskFile) -> bytes:
    try:
        return facts.text().encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadConfig(f"the options of the environment cannot be written as JSON: {error}") from None


def _toml(value: object) -> str:
    """Return a value as TOML, which spells strings and lists like JSON except for the character DEL."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.encode("utf-8", "replace").decode()
