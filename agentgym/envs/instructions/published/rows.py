"""Rows of IFEval and IFBench as tasks.

Files are JSON lines with `key`, `prompt`, `instruction_id_list` and `kwargs`, which has one object of arguments per
instruction (null means unset). A row that cannot be judged (an unknown instruction, wrong arguments, a missing package)
is skipped and counted.
"""

from functools import lru_cache
from typing import cast

from agentgym.core.tasks import Task
from agentgym.envs.instructions.published.checks import Table, arguments
from agentgym.envs.instructions.published.ifbench_forms import FORMS
from agentgym.envs.instructions.published.ifbench_words import WORDS
from agentgym.envs.instructions.published.ifeval import CHECKS
from agentgym.errors import BadData
from agentgym.tasks.library import Library, hashed
from agentgym.tasks.lines import objects, stamp
from agentgym.tasks.reading import PLAIN, Reading, playable

ALL_CHECKS: Table = CHECKS | WORDS | FORMS


def load(path: str, reading: Reading = PLAIN) -> Library:
    """Return the tasks of a file, which is read once per process.

    Raises:
        BadData: the file is missing or malformed, or no row is playable; with `reading.strict`, some row is not playable.
    """
    return _load(*stamp(path), reading)


@lru_cache(maxsize=4)
def _load(path: str, _time: int, _size: int, reading: Reading) -> Library:
    return Library(path, tuple(playable(path, objects(path), _task, reading, "prompt").values()), "prompt")


def _task(where: str, row: dict[str, object]) -> Task:
    prompt, names, values = (row.get(column) for column in ("prompt", "instruction_id_list", "kwargs"))
    key = row.get("key")
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise BadData(f"{where}: key is {str(key)[:60]!r}; expected a number or text")
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadData(f"{where}: prompt is {str(prompt)[:60]!r}; expected text")
    listed, kwargs = _listed(names, "instruction_id_list", where), _listed(values, "kwargs", where)
    if len(listed) != len(kwargs):
        raise BadData(f"{where}: instruction_id_list and kwargs have different lengths; expected one object an instruction")
    checks = [list(arguments(ALL_CHECKS, name, value, where)) for name, value in zip(listed, kwargs, strict=True)]
    split = row.get("split")
    id = str(key)
    return Task(
        prompt, {"checks": checks}, id, split if isinstance(split, str) and split else hashed("instructions file", id)
    )


def _listed(value: object, column: str, where: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise BadData(f"{where}: {column} is {str(cast('object', value))[:60]!r}; expected a list that is not empty")
    return cast("list[object]", value)
