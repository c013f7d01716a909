r"""Problems from files: GSM8K, MATH, and datasets in their formats.

A source is a JSON lines file (or a JSON list; `.gz` is decompressed), a folder of such files, or like MATH a folder
with one JSON file per problem. A record has a problem (`question` or `problem`) and an answer:
`answer` ending in `#### 42` (GSM8K), `answer` verbatim (MATH-500, AIME), or the last `\boxed{…}` of `solution` (MATH).
`datasets:OWNER/NAME` or `datasets:OWNER/NAME/CONFIG` is loaded with the `datasets` library, from the hub, its cache, or
a folder of that name.

Splits: a record's `split`, or the part of its path, file name or dataset named `train`, `valid` or `test`; otherwise
the hash of the id decides (80 % train, 10 % valid, 10 % test). Split `all` contains every problem.
"""

import gzip
import importlib
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from agentgym.core.folders import below
from agentgym.core.tasks import Task
from agentgym.envs.math.rows import task as read_row
from agentgym.errors import BadData, MissingExtra
from agentgym.tasks.library import Library
from agentgym.tasks.lines import find_path, is_table, table_rows
from agentgym.tasks.reading import PLAIN, Reading, playable

_NAMES = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "val": "valid", "test": "test"}
_FILES = (".json", ".jsonl", ".csv", ".json.gz", ".jsonl.gz", ".csv.gz")
_decode = json.JSONDecoder(parse_float=str).decode
"""Decodes JSON and keeps decimals as text, exactly as written."""
Record = tuple[str, str, str | None, dict[str, object]]
"""Location, default id, split that the location names (None: no split), and content."""


def load(source: str, reading: Reading = PLAIN) -> Library:
    """Load a file, a folder or a dataset, once per process.

    Raises:
        BadData: the source is missing or unreadable, or has no playable row; with `reading.strict`, a row is unplayable.
        UnreadText: a column has text that no reader uses.
        MissingExtra: a dataset is named, and the `datasets` library is missing.
    """
    if source.startswith("datasets:"):
        return _data_set(source.removeprefix("datasets:"), reading)
    path = find_path(
        source,
        Path.exists,
        "no file or folder",
        f"give the path of your copy, set AGENTGYM_DATA to its folder, or say 'datasets:{source}' for a data set of the hub",
    )
    places = (Path(folder, name) for folder, names in below(str(path)) for name in names)
    files = (
        [path] if path.is_file() else sorted(place for place in places if place.name.endswith(_FILES) and place.is_file())
    )
    if not files:
        raise BadData(f"{path} is a folder without files named {' or '.join(_FILES)}; expected problems in it")
    stamps = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return _files(str(path), stamps, reading)


@lru_cache(maxsize=4)
def _files(root: str, stamps: tuple[tuple[str, int, int], ...], reading: Reading) -> Library:
    records = (record for path, _, _ in stamps for record in _of_file(Path(path), Path(root)))
    return _collection(root, records, reading)


@lru_cache(maxsize=4)
def _data_set(name: str, reading: Reading) -> Library:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingExtra("data sets by name need the `datasets` library: pip install datasets") from error
    parts = name.split("/")
    folder = Path(name).expanduser().is_dir()
    path, config = (name, None) if folder or len(parts) < 3 else ("/".join(parts[:2]), "/".join(parts[2:]))
    try:
        files = _texts(datasets, path, config)
        data_set: Any = {} if files else datasets.load_dataset(path, config)
    except Exception as error:  # the library raises many kinds: no network, no such name, a config to choose
        raise BadData(f"the data set {name!r} cannot be loaded: {str(error)[:300]}") from error
    found = {split: _of_files(paths, table) for split, (paths, table) in files.items()} if files else data_set
    rows = (
        (f"{name}, {split} {number}", f"{split}/{number}", _NAMES.get(split, split), dict(row))
        for split, rows in found.items()
        for number, row in enumerate(rows)
    )
    return _collection(name, rows, reading)


def _texts(datasets: Any, path: str, config: str | None) -> dict[str, tuple[list[str], bool]]:
    """Return, by split of a JSON or CSV dataset, its files and True if they are tables; empty for other formats.

    The library infers one type per column: one number among the answers turns the text "007" into 7 and "null" into None
    (datasets 5.2.0). These files are parsed directly instead.
    """
    builder = datasets.load_dataset_builder(path, config)
    options, table = builder.config, builder.name == "csv"
    plain = getattr(options, "sep", ",") in (None, ",") if table else getattr(options, "field", None) is None
    if not str(type(builder).__module__).startswith("datasets.packaged_modules."):
        plain = False
    if builder.name not in ("json", "csv") or not getattr(options, "data_files", None) or not plain:
        return {}
    manager = datasets.DownloadManager()
    return {
        str(split): (list(manager.download_and_extract([str(file) for file in files])), table)
        for split, files in options.data_files.items()
    }


def _of_files(paths: list[str], table: bool) -> Iterator[dict[str, object]]:
    for path in paths:
        yield from (raw for _, _, _, raw in _records(Path(path), Path(path).name, None, table))


def _of_file(path: Path, root: Path) -> Iterator[Record]:
    """Yield the records of a file: a table, JSON lines, a JSON list, or one object; ids come from its path below `root`."""
    below = path.relative_to(root) if path != root else Path(path.name)
    stem = below.as_posix()
    for ending in sorted(_FILES, key=len, reverse=True):
        stem = stem.removesuffix(ending)
    named = next((_NAMES[part] for part in re.split(r"[/_.\-]", stem.lower()) if part in _NAMES), None)
    yield from _records(path, stem, named, is_table(str(path)))


def _records(path: Path, stem: str, named: str | None, table: bool) -> Iterator[Record]:
    if table:
        found = table_rows(str(path))
        yield from ((where, f"{stem}/{number}", named, raw) for number, (where, raw) in enumerate(found))
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
                value = _decode(line)
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
    """Return the records if the whole file is one JSON value; None if it must be JSON lines."""
    try:
        value = _decode("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _record(value: object, where: str, id: str, split: str | None) -> Record:
    if not isinstance(value, dict):
        raise BadData(f"{where}: {str(value)[:60]!r}; expected a JSON object")
    return where, id, split, cast("dict[str, object]", value)


def _collection(source: str, records: Iterator[Record], reading: Reading) -> Library:
    def read(where: str, id: str, split: str | None, raw: dict[str, object]) -> Task:
        return read_row(where, id, split, raw, reading)

    return Library(source, tuple(playable(source, records, read, reading, "problem").values()), "problem")
