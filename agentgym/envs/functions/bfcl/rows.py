"""Loader that turns rows of BFCL into tasks.

`data` is a file `BFCL_v4_CATEGORY.json` (JSON lines), or a folder of such files. Answers are read from the file of the
same name in `possible_answer/` next to it and matched by id. Functions of multi-turn rows are read from
`multi_turn_func_doc/`. Unplayable rows are skipped and counted: Java and JavaScript, memory and web search, and
multi-turn rows if the package bfcl-eval is missing. A playable row with text in an unknown column refuses the file.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

from agentgym.core.actions import Tool
from agentgym.core.tasks import Task
from agentgym.envs.functions.bfcl import backend
from agentgym.envs.functions.bfcl.check import TYPES, Value, written
from agentgym.errors import BadData
from agentgym.tasks.columns import lowered, refuse_unread
from agentgym.tasks.library import Library, hashed
from agentgym.tasks.lines import COPY, find_path, objects
from agentgym.tasks.reading import PLAIN, Reading, playable

KINDS: dict[str, tuple[str, ...]] = {
    # kind of judgment: categories
    "calls": (
        *("simple_python", "multiple", "parallel", "parallel_multiple"),
        *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    ),
    "no call": ("irrelevance", "live_irrelevance"),
    "any call": ("live_relevance",),
    "state": ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context"),
}
OLDER = {"simple": "simple_python"}
"""Category names of version 3 -> names of version 4."""
KIND_OF = {category: kind for kind, categories in KINDS.items() for category in categories}
_KNOWN = frozenset(
    (
        *("id", "question", "function", "split"),
        *("initial_config", "path", "involved_classes", "excluded_function", "missed_function"),
    )
)
END = "end_turn"
_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
Row = dict[str, Value]


def load(path: str, reading: Reading = PLAIN) -> Library:
    """Load a BFCL file, or all BFCL files of a folder, once per process.

    Raises:
        BadData: the folder has no files of BFCL, or a file is malformed; the message gives the location.
        UnreadText: a column that is unknown and not in `reading.ignore` has text.
    """
    found = find_path(path, Path.exists, "no file or folder", COPY)
    files = [found] if found.is_file() else sorted(found.glob("BFCL_v*_*.json"))
    files = [file for file in files if found.is_file() or _category_of(file) != "format_sensitivity"]
    if not files:
        raise BadData(f"{found} is a folder without files named BFCL_v4_CATEGORY.json; expected the data of bfcl-eval")
    stamps = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return _load(str(found), stamps, reading)


def _category_of(file: Path) -> str:
    return re.sub(r"^BFCL_v\d+_", "", file.stem)


@lru_cache(maxsize=4)
def _load(source: str, stamps: tuple[tuple[str, int, int], ...], reading: Reading) -> Library:
    records = (record for path, _, _ in stamps for record in _records(Path(path), reading.ignore))
    return Library(source, tuple(playable(source, records, _task, reading, "row").values()), "row")


def _records(file: Path, ignore: tuple[str, ...]) -> Iterator[tuple[str, Row, Path, object, tuple[str, ...]]]:
    beside = file.parent / "possible_answer" / file.name
    answers = {row.get("id"): row.get("ground_truth") for _, row in objects(str(beside))} if beside.is_file() else {}
    for where, row in objects(str(file)):
        yield where, row, file, answers.get(row.get("id")), ignore


def _task(where: str, row: Row, file: Path, answers: object, ignore: tuple[str, ...]) -> Task:
    id, question = row.get("id"), cast("list[list[Row]]", row.get("question"))
    if not isinstance(id, str) or not id:
        raise BadData(f"{where}: id is {str(id)[:60]!r}; expected text")
    category = re.sub(r"_\d+(-\d+)*$", "", id)
    category = OLDER.get(category, category)
    kind = KIND_OF.get(category)
    if kind is None:
        raise BadData(f"{where}: rows of {category[:40]!r} are not played here; expected one of {', '.join(KIND_OF)}")
    refuse_unread(lowered(row), _KNOWN, ignore, where)
    try:
        turns = [[f"{message['role'].capitalize()}: {message['content']}" for message in turn] for turn in question]
        data: Row = {"kind": kind, "category": category, "turns": turns}
        data |= _of_turns(row, file, answers) if kind == "state" else _of_calls(row, kind, answers)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, IndexError) as error:
        if isinstance(error, BadData):
            raise BadData(f"{where}: {error}") from error
        raise BadData(f"{where}: {type(error).__name__} {str(error)[:80]}; expected a row in BFCL's layout") from error
    instruction = "\n".join(turns[0])
    split = row.get("split")
    return Task(instruction, data, id, split if isinstance(split, str) and split else hashed("BFCL file", id))


def _of_calls(row: Row, kind: str, answers: object) -> Row:
    functions = cast("list[Row]", row["function"])
    _refuse_duplicates([written(function["name"]) for function in functions])
    if kind != "calls":
        return {"functions": functions, "answers": []}
    if not isinstance(answers, list) or not answers:
        raise BadData("no answer with this id in the file of possible_answer")
    for function in functions:
        for schema in function["parameters"]["properties"].values():
            if schema["type"] not in TYPES or (
                schema["type"] in ("array", "tuple") and schema["items"]["type"] not in TYPES
            ):
                raise BadData(
                    f"{function['name']} has a parameter of type {str(schema['type'])[:40]!r}; expected a Python one"
                )
    for answer in cast("list[Mapping[str, Value]]", answers):
        ((_, allowed),) = answer.items()
        if not all(isinstance(options, list) for options in allowed.values()):
            raise BadData("an answer has no list of allowed values; expected one for each parameter")
    return {"functions": functions, "answers": answers}


def _refuse_duplicates(names: Sequence[str]) -> None:
    if END in names or len(set(names)) < len(names):
        raise BadData(f"two functions are called {END}, or alike; expected different names")


def _of_turns(row: Row, file: Path, answers: object) -> Row:
    if not backend.installed():
        raise BadData("its services are classes of the package bfcl-eval: pip install --no-deps bfcl-eval mpmath")
    classes = cast("list[str]", row["involved_classes"])
    unknown = [name for name in classes if name not in backend.SERVICES]
    if unknown or not classes:
        raise BadData(f"involved_classes names {str(unknown)[:60]}; expected some of {', '.join(backend.SERVICES)}")
    functions: list[Row] = []
    owners: dict[str, str] = {}
    for name in classes:
        for function in _functions(str(file.parent / "multi_turn_func_doc" / f"{backend.SERVICES[name][1]}.json")):
            if function["name"] not in row.get("excluded_function", ()):
                functions.append(function)
            owners[function["name"]] = name
    _refuse_duplicates([function["name"] for function in functions])
    if not isinstance(answers, list) or len(cast("list[object]", answers)) != len(row["question"]):
        raise BadData("no answer with this id and as many turns in the file of possible_answer")
    parameters = {
        function["name"]: list(function["parameters"]["properties"]) for name in classes for function in _all(file, name)
    }
    gold = [[backend.read_call(text, parameters) for text in turn] for turn in cast("list[list[str]]", answers)]
    late = {str(int(turn)): list(names) for turn, names in row.get("missed_function", {}).items()}
    config = row.get("initial_config", {})
    long = "long_context" in row["id"]
    setting = {"classes": classes, "config": config, "long": long}
    return {"functions": functions, "owners": owners, "answers": gold, "late": late, **setting}


def _all(file: Path, name: str) -> tuple[Row, ...]:
    return _functions(str(file.parent / "multi_turn_func_doc" / f"{backend.SERVICES[name][1]}.json"))


@lru_cache(maxsize=16)
def _functions(path: str) -> tuple[Row, ...]:
    return tuple(row for _, row in objects(path))


def as_tool(function: Mapping[str, Value], *, typed: bool = True) -> Tool:
    """Return a BFCL function as a tool; if not `typed`, it accepts any values, since answers may be variable names."""
    parameters = function["parameters"]
    declared: Row = parameters["properties"]
    properties: Row = {name: _schema(one) if typed else {"anyOf": []} for name, one in declared.items()}
    schema: Row = {"type": "object", "properties": properties, "required": list(parameters.get("required", ()))}
    return Tool(written(function["name"]), function.get("description", ""), json.loads(json.dumps(schema)))


def _schema(value: Value) -> Value:
    """Return a BFCL parameter schema in JSON Schema's vocabulary."""
    if isinstance(value, list):
        return [_schema(item) for item in cast("list[Value]", value)]
    if not isinstance(value, dict):
        return value
    fields = {key: _schema(item) for key, item in cast("dict[str, Value]", value).items()}
    kind = fields.get("type")
    if isinstance(kind, str):
        fields["type"] = _JSON_TYPES.get(kind, kind)
        if kind == "any":
            del fields["type"]
    return fields
