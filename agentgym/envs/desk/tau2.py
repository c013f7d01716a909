"""Loader for tau2-bench's task files; keeps the criteria that a program can verify.

Source: sierra-research/tau2-bench, `data/tau2/domains/NAME/` with `tasks.json`, `split_tasks.json`, `db.json` (or
`db.toml`) and `policy.md`, and `src/tau2/data_model/tasks.py` for the meaning of the fields.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from agentgym.core.tasks import Task
from agentgym.errors import BadData
from agentgym.tasks.columns import lowered, refuse_unread
from agentgym.tasks.library import Library, hashed
from agentgym.tasks.lines import COPY, find_path
from agentgym.tasks.reading import PLAIN, Reading, playable

JsonObject = dict[str, Any]

BASIS = {
    "DB": "the database after the reference actions",
    "COMMUNICATE": "strings that the agent's messages have to contain",
    "ENV_ASSERTION": "assertions about the database",
    "ACTION": "calls that have to be made",
}
"""Criterion -> description, for criteria that a program can verify; `NL_ASSERTION` needs a model and is left out."""
KNOWN = frozenset(
    (
        *("id", "description", "user_scenario", "ticket", "initial_state", "evaluation_criteria", "issues"),
        *("required_documents", "user_tools"),
    )
)
"""Known fields of a task (sierra-research/tau2-bench 1ef2aea4, `data_model/tasks.py`)."""
DEFAULT = ("DB", "COMMUNICATE")
"""Criteria of tasks that do not name any."""


@dataclass(frozen=True)
class Bench:
    """A domain of tau2-bench: its folder, tasks, policy and database."""

    folder: Path
    library: Library
    policy: str
    db: Mapping[str, object]
    """The domain's tables as in its database file; empty if there is no file."""

    @property
    def name(self) -> str:
        """Name of the domain, taken from its folder."""
        return self.folder.name

    def report(self) -> dict[str, int]:
        """Return numbers of tasks: all (`tasks`), per criterion (its name), with unverifiable parts (`left out in part`)."""
        tasks = self.library.tasks
        counts = Counter(part for task in tasks for part in task.data["basis"])
        return {"tasks": len(tasks), **counts, "left out in part": sum(bool(task.data["left_out"]) for task in tasks)}


def load(data: str, reading: Reading = PLAIN) -> Bench:
    """Load a domain's folder or its `tasks.json`; BadData gives the file, the task and what was expected."""
    folder = find_path(data, Path.exists, "no folder of tau2-bench", COPY).resolve()
    file = folder if folder.is_file() else folder / "tasks.json"
    changed = file.stat().st_mtime_ns if file.is_file() else 0  # a changed file is read again
    return _load(str(file), changed, reading)


@lru_cache(maxsize=4)
def _load(file: str, _changed: int, reading: Reading) -> Bench:
    path = Path(file)
    splits = _splits(path.with_name(f"split_{path.name}"))
    rows = _json(path)
    if not isinstance(rows, list) or not rows:
        raise BadData(f"{path}: expected a list of tasks")

    def read(where: str, row: object) -> Task:
        return _task(where, path.parent.name, row, splits, reading.ignore)

    records = ((f"{path}, task {i}", row) for i, row in enumerate(cast("list[object]", rows)))
    tasks = tuple(playable(str(path), records, read, reading).values())
    policy = path.with_name("policy.md")
    text = policy.read_text(encoding="utf-8-sig") if policy.is_file() else ""
    return Bench(path.parent, Library(str(path), tasks), text, _database(path.parent))


def _task(where: str, domain: str, row: object, splits: Mapping[str, str], ignore: tuple[str, ...]) -> Task:
    task = _object(row, where)
    refuse_unread(lowered(task), KNOWN, ignore, where)
    if not isinstance(task.get("id"), str):
        raise BadData(f"{where}: id is {task.get('id')!r}; expected a string")
    scenario = _object(task.get("user_scenario"), f"{where}: user_scenario")
    instructions_field = scenario.get("instructions")
    if not isinstance(instructions_field, str | dict):
        raise BadData(
            f"{where}: instructions of user_scenario are {str(instructions_field)[:60]!r}; expected text or an object"
        )
    instructions: JsonObject = (
        {"task_instructions": instructions_field}
        if isinstance(instructions_field, str)
        else cast("JsonObject", instructions_field)
    )
    criteria = _object(task.get("evaluation_criteria") or {}, f"{where}: evaluation_criteria")
    basis = criteria.get("reward_basis") or list(DEFAULT)
    if unknown := [part for part in basis if part not in (*BASIS, "NL_ASSERTION")]:
        raise BadData(f"{where}: reward_basis has {unknown[0]!r}; expected {', '.join((*BASIS, 'NL_ASSERTION'))}")
    tools: object = task.get("user_tools")
    if not (
        tools is None or (isinstance(tools, list) and all(isinstance(name, str) for name in cast("list[object]", tools)))
    ):
        raise BadData(f"{where}: user_tools is {str(cast('object', tools))[:60]!r}; expected names of tools")
    if task.get("required_documents"):
        raise BadData(
            f"{where}: it requires documents of a knowledge base, which tau2's own agent finds; none is served here"
        )
    content = {
        "domain": domain,
        "persona": scenario.get("persona"),
        "instructions": instructions,
        "ticket": task.get("ticket"),
        "initial_state": task.get("initial_state"),
        "criteria": criteria,
        "basis": basis,
        "left_out": [part for part in basis if part not in BASIS],
        "row": task,
    }
    reason = str(instructions.get("reason_for_call") or instructions.get("task_instructions") or "").strip()
    split = splits.get(task["id"]) or hashed("tau2-bench", domain, task["id"])
    return Task(instruction=reason, data=content, id=task["id"], split=split)


def why_not(task: Task, solo: bool) -> str:
    """Return the reason why a task cannot be played (with `solo`: in tau2's solo mode); empty if it can."""
    data = task.data
    criteria, ticket = data["criteria"], data["ticket"]
    asserted = criteria.get("actions") is not None or criteria.get("env_assertions") is not None
    if not set(data["basis"]) & set(BASIS) or not (asserted or criteria.get("communicate_info")):
        return f"its criteria ({', '.join(data['basis'])}) hold nothing that a program can verify"
    if not solo:
        return ""
    if not ticket:
        return "it has no ticket, so tau2's solo mode cannot play it; give the customer's part to a model with user="
    if not (criteria.get("actions") or criteria.get("env_assertions")):
        return "it names no action, so tau2's solo mode does not play it"
    state: JsonObject = data["initial_state"] or {}
    history: list[JsonObject] = state.get("message_history") or []
    if any(
        message.get("role") == "user" or (message.get("role") == "assistant" and not message.get("tool_calls"))
        for message in history
    ):
        return "it begins in the middle of a conversation, which tau2's solo mode cannot play; give user="
    return ""


def _splits(path: Path) -> dict[str, str]:
    """Return the split of each task id, from the file of splits; empty if there is no such file.

    If the file has any of `train`, `valid` and `test`, other splits (such as their union `base`) are ignored.
    """
    if not path.is_file():
        return {}
    named = {
        name: cast("list[object]", ids) for name, ids in _object(_json(path), str(path)).items() if isinstance(ids, list)
    }
    parts = {name: ids for name, ids in named.items() if name in ("train", "valid", "test")}
    return {str(id): name for name, ids in (parts or named).items() for id in ids}


def _database(folder: Path) -> Mapping[str, object]:
    if (folder / "db.json").is_file():
        return _object(_json(folder / "db.json"), str(folder / "db.json"))
    if (folder / "db.toml").is_file():
        try:
            return tomllib.loads((folder / "db.toml").read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise BadData(f"{folder / 'db.toml'}: {error}; expected TOML in UTF-8") from error
    return {}


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadData(f"{path}: {error.strerror}; {COPY}") from error
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path}: {error}; expected JSON in UTF-8") from error


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise BadData(f"{where}: {str(value)[:60]!r}; expected an object")
    return cast("dict[str, object]", value)
