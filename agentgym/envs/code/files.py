"""Files of programming tasks: HumanEval, MBPP, LiveCodeBench, CodeContests and our own layout, one JSON object per line.

A task keeps the split that it names or that its benchmark publishes. Otherwise the hash of its id decides (80 % train,
10 % valid, 10 % test); split `all` is the whole file.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.core.tasks import Task
from agentgym.envs.code.layouts import layout_of
from agentgym.errors import BadData
from agentgym.tasks.columns import whole_question
from agentgym.tasks.library import ALL, Library, hashed
from agentgym.tasks.lines import objects, stamp
from agentgym.tasks.reading import PLAIN, Reading, playable

DEFAULTS: dict[str, Any] = {"compare": "equal", "tolerance": 0.0, "reference": "", "before": "", "setup": "", "names": []}

AFTER = (
    "input_format",
    "output_format",
    "input_description",
    "output_description",
    "constraints",
    "note",
    "notes",
    "examples",
)
"""Columns to append to the statement, since some datasets store these parts of it separately."""


def load(path: str, reading: Reading = PLAIN) -> Library:
    """Load a file of tasks, cached per process; raise BadData if no task is left or, with `reading.strict`, a row is bad."""
    return _loaded(*stamp(path), reading)


@lru_cache(maxsize=4)
def _loaded(path: str, _time: int, _size: int, reading: Reading) -> Library:
    name = Path(path).name

    def read(where: str, number: int, raw: dict[str, Any]) -> Task:
        layout = layout_of(raw, where)
        data = {**DEFAULTS, "family": name, **layout.read(raw, where)}
        id = data.pop("id").strip() or f"{name.split('.')[0]}/{number}"
        if not data["hidden"]:
            raise BadData(f"{where}: task {id!r} has no hidden test; expected at least one")
        split = data.pop("split") or hashed("code file", id)
        if split == ALL:
            raise BadData(f"{where}: split {ALL!r} is the name for the whole file; expected another name")
        data["statement"] = whole_question(raw, data["statement"], layout.known, reading.ignore, where, AFTER)
        return Task(instruction=data["statement"], data=data, id=id, split=split)

    records = ((where, number, raw) for number, (where, raw) in enumerate(objects(path)))
    return Library(path, tuple(playable(path, records, read, reading).values()))


def whole(data: Mapping[str, object], code: str) -> str:
    """Return the task's opening code followed by `code`, which may continue the opening code's last function."""
    return f"{data['before']}\n{code}" if data.get("before") else code


def verify(library: Library, tried: Callable[[Task, str, str], list[Any]]) -> None:
    """Check that all reference solutions pass their hidden tests.

    `tried(task, code, "hidden")` returns the result of each test (`passed`, `got`).

    Raises:
        BadData: a task's reference solution is missing or fails a hidden test.
    """
    wrong: list[str] = []
    for task in library.tasks:
        code = task.data["reference"]
        results = tried(task, code, "hidden") if code else []
        failing = [f"test {number}: {result.got:.200}" for number, result in enumerate(results) if not result.passed]
        if failing or not code:
            wrong.append(f"task {task.id!r} ({failing[0] if failing else 'it has no reference'})")
    if wrong:
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise BadData(
            f"{library.source}: reference solutions fail in {'; '.join(wrong[:10])}{more}; mend or remove these tasks"
        )
