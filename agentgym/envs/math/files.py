"""Problems from files: GSM8K, MATH, and data sets of their kind.

A JSON lines file (or a JSON list; `.gz` is unpacked), or a folder of such files or of one JSON file a problem, as MATH
has it. A record has a problem (`question` or `problem`) and an answer: `answer` that ends in `#### 42` (GSM8K), `answer` as
it stands (MATH-500, AIME), or the last `\\boxed{…}` of `solution` (MATH). `datasets:OWNER/NAME` or
`datasets:OWNER/NAME/CONFIG` is loaded with the `datasets` library, from the hub, its cache, or a folder of that name.

Splits: what a record's `split` says, or the part of its path, file name or data set that is called `train`, `valid` or
`test`; where nothing does, the hash of the id decides (80 % train, 10 % valid, 10 % test). Split `all` is everything.
"""

import gzip
import importlib
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import cast

from agentgym.core.tasks import Task
from agentgym.errors import BadData, MissingExtra
from agentgym.rewards.numeric import read_number
from agentgym.tasks.library import ALL, Library, hashed
from agentgym.tasks.lines import find_path, is_table, objects

_NAMES = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "val": "valid", "test": "test"}
_FILES = (".json", ".jsonl", ".csv", ".json.gz", ".jsonl.gz", ".csv.gz")
EXAMPLE = '{"question": "What is 2 + 3?", "answer": "5"}, or in a table: question,answer'
Record = tuple[str, str, str | None, dict[str, object]]
"""Where it stands, an id to fall back on, the split its place names, and its content."""


def load(source: str) -> Library:
    """Read a file, a folder or a data set, once per process; raises BadData with the place of what is wrong."""
    if source.startswith("datasets:"):
        return _data_set(source.removeprefix("datasets:"))
    path = find_path(
        source,
        Path.exists,
        "no file or folder",
        f"give the path of your copy, set AGENTGYM_DATA to its folder, or say 'datasets:{source}' for a data set of the hub",
    )
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.name.endswith(_FILES) and p.is_file())
    if not files:
        raise BadData(f"{path} is a folder without files named {' or '.join(_FILES)}; expected problems in it")
    stamps = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return _files(str(path), stamps)


@lru_cache(maxsize=4)
def _files(root: str, stamps: tuple[tuple[str, int, int], ...]) -> Library:
    return _collection(root, (record for path, _, _ in stamps for record in _of_file(Path(path), Path(root))))


@lru_cache(maxsize=4)
def _data_set(name: str) -> Library:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingExtra("data sets by name need the `datasets` library: pip install datasets") from error
    parts = name.split("/")
    folder = Path(name).expanduser().is_dir()
    path, config = (name, None) if folder or len(parts) < 3 else ("/".join(parts[:2]), "/".join(parts[2:]))
    try:
        data_set = datasets.load_dataset(path, config)
    except Exception as error:  # the library raises of every kind: no network, no such name, a config to choose
        raise BadData(f"the data set {name!r} cannot be loaded: {str(error)[:300]}") from error
    rows = (
        (f"{name}, {split} {number}", f"{split}/{number}", _NAMES.get(split, split), dict(row))
        for split, rows in data_set.items()
        for number, row in enumerate(rows)
    )
    return _collection(name, rows)


def _of_file(path: Path, root: Path) -> Iterator[Record]:
    """Yield the records of a file: JSON lines, a JSON list, or one object."""
    below = path.relative_to(root) if path != root else Path(path.name)
    stem = below.as_posix()
    for ending in sorted(_FILES, key=len, reverse=True):
        stem = stem.removesuffix(ending)
    named = next((_NAMES[part] for part in re.split(r"[/_.\-]", stem.lower()) if part in _NAMES), None)
    if is_table(str(path)):
        yield from ((where, f"{stem}/{number}", named, raw) for number, (where, raw) in enumerate(objects(str(path))))
        return
    lines = _lines(path)
    whole = None if ".jsonl" in path.suffixes else _whole(lines)
    if whole is not None:
        for number, value in enumerate(whole):
            yield _record(value, f"{path}, problem {number + 1}", f"{stem}/{number}" if len(whole) > 1 else stem, named)
        return
    for number, line in enumerate(lines):
        if line.strip():
            where = f"{path}, line {number + 1}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise BadData(f"{where}: {error}; expected one JSON object a line") from error
            yield _record(value, where, f"{stem}/{number}", named)


def _lines(path: Path) -> list[str]:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return content.decode("utf-8-sig").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadData(f"{path}: {error}; expected JSON in UTF-8, the file may be damaged or cut short") from error


def _whole(lines: list[str]) -> list[object] | None:
    """Return the records where the whole file is one JSON value, else None: it has to be JSON lines then."""
    try:
        value = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _record(value: object, where: str, id: str, split: str | None) -> Record:
    if not isinstance(value, dict):
        raise BadData(f"{where}: {str(value)[:60]!r}; expected a JSON object")
    return where, id, split, cast("dict[str, object]", value)


def _collection(source: str, records: Iterator[Record]) -> Library:
    tasks: dict[str, Task] = {}
    for where, id, split, raw in records:
        task = _task(where, id, split, raw)
        if task.id in tasks:
            raise BadData(f"{where}: the id {task.id!r} was given before; expected one problem per id")
        tasks[task.id] = task
    if not tasks:
        raise BadData(f"{source} holds no problem; expected at least one")
    return Library(source, tuple(tasks.values()), "problem")


def _task(where: str, id: str, split: str | None, raw: dict[str, object]) -> Task:
    if not {"question", "problem"} & raw.keys() or not {"answer", "answers", "solution"} & raw.keys():
        raise BadData(f"{where}: the keys are {sorted(raw)[:12]}; expected for example {EXAMPLE}")
    problem = _text(raw.get("question", raw.get("problem")), f"{where}: question (or problem)")
    answer = _answer(raw, where)
    id = str(raw.get("unique_id", raw.get("id", id)))
    named = raw.get("split", split)
    if named == ALL:
        raise BadData(f"{where}: split {ALL!r} is the name for everything; expected another name")
    level = re.search(r"\d+", str(raw.get("level", "")))
    data = {"problem": problem, "answer": answer, "form": "expression" if read_number(answer) is None else "number"}
    own_split = str(named) if named is not None else hashed("math file", id)
    return Task(problem, data, id=id, split=own_split, difficulty=int(level[0]) if level else 0)


def _answer(raw: dict[str, object], where: str) -> str:
    listed = raw.get("answers")
    if raw.get("answer") is None and listed is not None:
        if not isinstance(listed, list) or len(cast("list[object]", listed)) == 1:
            raw = {**raw, "answer": listed[0] if isinstance(listed, list) else listed}
        else:
            raise BadData(
                f"{where}: answers is {str(cast('object', listed))[:60]!r}; expected one answer, for example {EXAMPLE}"
            )
    if raw.get("answer") is not None:
        answer = _text(str(raw["answer"]), f"{where}: answer")
        last = answer.rpartition("####")[2].strip()
        if not last:
            raise BadData(f"{where}: nothing stands after the last #### of the answer; expected `#### 42`")
        return last if "####" in answer else (boxed(answer) or answer)
    solution = _text(raw.get("solution"), f"{where}: answer, or solution")
    boxed_answer = boxed(solution)
    if not boxed_answer:
        raise BadData(f"{where}: the solution has no \\boxed{{…}} with an answer in it")
    return boxed_answer


def boxed(text: str) -> str | None:
    """Return what the last `\\boxed{…}` of a text holds, with its own braces; None where there is none that is closed."""
    at = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if at < 0:
        return None
    rest = text[at:].removeprefix("\\boxed").removeprefix("\\fbox")
    if not rest.startswith("{"):
        return next(iter(rest.split()), "").rstrip("$.") or None  # `\\boxed 5` of the older files
    depth = 0
    for end, character in enumerate(rest):
        escaped = end > 0 and rest[end - 1] == "\\"
        depth += 0 if escaped else {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return rest[1:end].strip()
    return None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{what} is {str(value)[:60]!r}; expected text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
