"""Packages that offer one environment to another project, as `agentgym package` writes them."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template

from agentgym.core.folders import check_folder
from agentgym.errors import DISTRIBUTION, BadConfig, UnknownName, no_such

TARGETS = {
    # project: file of the package: its template
    "openenv": {
        "openenv.yaml": "openenv.yaml.txt",
        "Dockerfile": "Dockerfile.txt",
        ".dockerignore": "dockerignore.txt",
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
        "__init__.py": "empty.py.txt",
        "server/__init__.py": "empty.py.txt",
        "server/app.py": "app.py.txt",
    },
    "verifiers": {
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
        "$name.py": "taskset.py.txt",
    },
    "nemo_gym": {
        "app.py": "app.py.txt",
        "configs/$name.yaml": "config.yaml.txt",
        "requirements.txt": "requirements.txt.txt",
        "task_data.py": "task_data.py.txt",
        "README.md": "README.md.txt",
    },
}
_UNWRITTEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON text may contain unescaped, but YAML or TOML may not."""
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.+!_-]+)?")


@dataclass(frozen=True, slots=True)
class Trace:
    """The actions of one episode, with the task's id and the seed that `reset` needs to replay them."""

    task: str
    seed: int
    actions: Sequence[str]
    label: str = ""
    """Name of the policy that chose the actions."""

    def reset(self) -> dict[str, object]:
        """Return the arguments for OpenEnv's `reset`."""
        return {"seed": self.seed, "task": self.task}


@dataclass(frozen=True, slots=True)
class Packaged:
    """Description of one environment for its package."""

    env: str
    """Name for `agentgym.make`: an id, or `MODULE:ID`."""
    description: str
    options: Mapping[str, object]
    requirements: Sequence[str] = ()
    """Requirements that provide the environment, such as `frost-envs==0.1.0`; empty for agentgym's own environments."""
    source: Path | None = None
    """File or folder of the environment's module if it is not in a distribution; it is copied into the package."""
    tools: Sequence[str] = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of tasks by split, for finite splits only."""
    tasks: Sequence[tuple[str, str]] = ()
    """(id, instruction) of the first tasks."""
    turns: int = 50
    public: Trace | None = None
    """Episode of a policy that knows only its observations."""
    solution: Trace | None = None
    canaries: Sequence[Trace] = ()
    """Episodes of shortcut policies, which earned no reward."""

    @property
    def name(self) -> str:
        """Name for Python and YAML, such as `frost_lighthouse` for `frost/Lighthouse-v0`."""
        id = self.env.rpartition(":")[2].removesuffix("-v0")
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", id).strip("_").lower()
        return words if words[:1].isalpha() and words.isascii() else f"env_{words}".strip("_")


def write(env: Packaged, target: str, folder: Path) -> list[Path]:
    """Write the package of an environment for the project `target` into a new or empty folder; return the paths.

    Raises:
        UnknownName: the project is unknown.
        BadConfig: the folder is not empty, an option is not JSON, or the module has the name of a package's file.
    """
    if target not in TARGETS:
        raise UnknownName(no_such("project to package for", target, TARGETS))
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise BadConfig(f"{folder} is not empty; choose another folder with --out, or remove it")
    values = _values(env, target)
    contents = {
        Template(name).substitute(values): Template(
            files("agentgym.scaffold").joinpath("files", target, template).read_text(encoding="utf-8")
        ).substitute(values)
        for name, template in TARGETS[target].items()
    }
    contents |= _openenv_data(env) if target == "openenv" else _rows(env) if target == "nemo_gym" else {}
    written = list[Path]()
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        written.append(path)
    if env.source is not None:
        copy = folder / env.source.name
        if copy.exists():
            raise BadConfig(f"{env.source} has the name of a file of the package; rename the module")
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(env.source, copy, ignore=ignored) if env.source.is_dir() else shutil.copy(env.source, copy)
        written.append(copy)
    return written


def _values(env: Packaged, target: str) -> dict[str, str]:
    """Return the values for the templates, each as a literal in the language of its file.

    Raises:
        BadConfig: a requirement is not of the form NAME==VERSION.
    """
    options = _json(env.options, "options of the environment")
    strange = [requirement for requirement in env.requirements if not _REQUIREMENT.fullmatch(requirement)]
    if strange:
        raise BadConfig(f"the environment's distribution is {strange[0]!r}; expected NAME==VERSION")
    extra = {"openenv": f"{DISTRIBUTION}[openenv]", "verifiers": f"{DISTRIBUTION}[verifiers]"}.get(target, DISTRIBUTION)
    requirements = [extra, *env.requirements]
    source = env.source
    modules = [source.stem] if source is not None and source.is_file() else []
    folders = _folders(source) if source is not None and source.is_dir() else []
    own = [env.name, f"{env.name}.server"] if target == "openenv" else []
    return {
        "name": env.name,
        "dashed": env.name.replace("_", "-"),
        "id": "".join(letter for letter in env.env if letter.isprintable() and letter != "`"),
        "description": _json(
            " ".join("".join(c if c.isprintable() else " " for c in env.description).split()), "description"
        ),
        "env": repr(env.env),
        "options": repr(json.loads(options)),
        "requirements": _json(requirements, "requirements"),
        "requirement_lines": "\n".join(requirements),
        "modules": _json([*modules, *([env.name] if target == "verifiers" else [])], "modules"),
        "packages": _json([*own, *folders], "packages"),
        "turns": str(env.turns),
        "rows": str(len(env.tasks)),
        "validation": _json(_validation(env), "manifest"),  # YAML takes JSON
    }


def _folders(root: Path) -> list[str]:
    """Return the dotted names of the package in a folder and of its subpackages."""
    inner = sorted(path.parent.relative_to(root.parent) for path in root.rglob("__init__.py"))
    return [".".join(path.parts) for path in inner]


def _validation(env: Packaged) -> dict[str, object]:
    """Return the validation manifest of OpenEnv (RFC 008)."""
    weights = env.options.get("shaping")
    shaped = sum(abs(weight) for weight in weights.values()) if isinstance(weights, Mapping) else 0.0  # pyright: ignore
    capabilities: dict[str, object] = {
        "verifier": {"kind": "reward_channel"},
        "set_state": True,
        "task_api": True,
        "declared_tools": list(env.tools),
        "declared_task_count": dict(env.sizes),
    }
    if env.solution is not None:
        capabilities["oracle"] = {"form": "injected_state", "location": "oracle/solved_state.json"}
    if env.canaries:
        capabilities["canaries"] = "canaries/canaries.json"
    return {
        "reward": {"range": [0.0 - shaped, 1.0 + shaped], "oracle_tolerance": 0.0, "floor_margin": 0.5},
        "resources": {"cpu": 1.0, "memory_mb": 1024, "disk_mb": 512, "episode_timeout_s": 600.0},
        "capabilities": capabilities,
        "types": {"tags": ["text"]},
        "execution": {"kind": "openenv_ws", "probe_path": "validation/runtime.json", "dockerfile": "Dockerfile"},
    }


def _openenv_data(env: Packaged) -> dict[str, str]:
    """Return the files with the episodes that OpenEnv's validator replays."""
    contents = {"wheels/.gitkeep": ""}
    if env.public is not None:
        reset = {"episode_id": "validation", "seed": env.public.seed, "options": {"task": env.public.task}}
        actions = [{"text": action} for action in env.public.actions]
        contents["validation/runtime.json"] = _json(
            {"plan_schema_version": "1", "reset": reset, "actions": actions}, "plan", indent=1
        )
    if env.solution is not None:
        state = {"task": env.solution.task, "actions": list(env.solution.actions)}
        contents["oracle/solved_state.json"] = _json(
            {"reset": {"seed": env.solution.seed}, "injected_state": state}, "solution", indent=1
        )
    if env.canaries:
        rows = [
            {"name": canary.label, "reset": canary.reset(), "actions": [{"text": action} for action in canary.actions]}
            for canary in env.canaries
        ]
        contents["canaries/canaries.json"] = _json(rows, "canaries", indent=1)
    return contents


def _rows(env: Packaged) -> dict[str, str]:
    """Return the data file of a NeMo Gym resources server; rows have no prompt, because the server's reset returns it."""
    agent = {"type": "responses_api_agents", "name": f"{env.name}_gymnasium_agent"}
    prompt: dict[str, object] = {"input": list[str]()}
    rows = [{"responses_create_params": prompt, "task_id": task, "agent_ref": agent} for task, _ in env.tasks]
    return {"data/example.jsonl": "".join(_json(row, "task") + "\n" for row in rows)}


def _json(value: object, what: str, indent: int | None = None) -> str:
    """Return a value as JSON text, also valid in YAML and TOML; `what` names it in errors.

    Raises:
        BadConfig: the value cannot be written as JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadConfig(
            f"the {what} cannot be written as JSON ({error}); expected text, numbers, lists and tables"
        ) from None
    return _UNWRITTEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
