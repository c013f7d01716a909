"""Questions of Spider and BIRD, read from the user's own copy in the published layout.

Spider: `train_spider.json`, `train_others.json`, `dev.json`, `test.json` next to `database/NAME/NAME.sqlite`; objects with
`db_id`, `question`, `query`. Further `.sqlite` files in a database's folder (the test suite) are hidden databases.
BIRD: `train.json` or `dev.json` next to `train_databases` or `dev_databases`; objects with `db_id`, `question`, `evidence`,
`SQL` and, in the development set, `question_id`. The setting `data` is the folder, or one of its JSON files.
"""

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from agentgym.core.env import Task
from agentgym.envs.sql.database import Database, QueryError
from agentgym.envs.sql.judge import comparison, rewritten_gold
from agentgym.envs.sql.variants import variant
from agentgym.errors import BadData, Fault
from agentgym.tasks.columns import whole_question
from agentgym.tasks.library import Library
from agentgym.tasks.lines import COPY, find_path
from agentgym.tasks.reading import PLAIN, Reading, playable

FILES = {"train": ("train_spider.json", "train_others.json", "train.json"), "dev": ("dev.json",), "test": ("test.json",)}
FOLDERS = ("{split}_databases", "{split}_database", "database", "databases")


KNOWN = frozenset(
    ("db_id", "question", "query", "SQL", "sql", "evidence", "question_id", "difficulty", "query_toks_no_value")
)
"""Known columns of Spider and BIRD."""
_OF_KAGGLE = "GeoNuclearData GreaterManchesterCrime Pesticide StudentMathScore TheHistoryofBaseball USWildFires WhatCDHipHop"
KAGGLE = frozenset((*_OF_KAGGLE.split(), "WorldSoccerDataBase"))
"""Names of KaggleDBQA's databases; its questions have Spider's layout.

The names are those of the eight folders in its `databases`, and of semiotic/SynQL-KaggleDBQA-Topics.
"""
TRIES = 12
"""Maximum number of variants of a database that are tried per question."""
UNTOLD = (
    "no other contents of its database give its query another result: a constant would be as good an answer. "
    "variants=0 compares on the published database alone"
)


@dataclass(frozen=True)
class Questions(Library):
    """Questions of a data set, and for each question the databases that change the result of its gold query."""

    variants: int = 0
    """Number of generated databases to test on if no published database changes the gold query's result; 0: none."""
    rule: str = "published"
    """Comparison of results, one of `judge.RULES`."""
    _found: dict[str, list[int] | None] = field(default_factory=dict[str, list[int] | None], repr=False)

    def of_split(self, split: str) -> list[Task]:
        """Return a split's usable questions, for which `numbers` is not None; a warning counts the others.

        Raises:
            BadData: the split has no usable question.
        """
        if split not in self._by_split:
            listed = super().of_split(split)
            self._by_split[split] = usable = [task for task in listed if self.numbers(task) is not None]
            if left := len(listed) - len(usable):
                warnings.warn(f"{left} of {len(listed)} questions of split {split!r} are not played: {UNTOLD}", stacklevel=2)
            if not usable:
                raise BadData(f"{self.source}: none of {len(listed)} questions of split {split!r} is played: {UNTOLD}")
        return self._by_split[split]

    def find(self, task_id: str) -> Task:
        """Return the question with this id.

        Raises:
            BadData: the question is not usable (see `of_split`).
        """
        task = super().find(task_id)
        if self.numbers(task) is None:
            raise BadData(f"question {task_id}: {UNTOLD}")
        return task

    def hidden(self, task: Task) -> Iterator[bytes | Path]:
        """Yield a question's hidden databases: other published ones, then variants that change the gold query's result."""
        visible = Path(task.data["path"])
        yield from _beside(visible)
        for number in self.numbers(task) or ():
            hidden_variant = variant(visible, number, task.data["gold"])
            if hidden_variant is not None:
                yield hidden_variant

    def numbers(self, task: Task) -> list[int] | None:
        """Return the numbers of variants of a question's database that change the gold result; None if none was found.

        Without such a database, a constant would be as good an answer. Empty if `variants` is 0, or a published database
        already changes the result, or the query fails or the database is damaged: the question remains usable then, so that
        its episode reports the error.
        """
        if not self.variants:
            return []
        if task.id not in self._found:
            try:
                self._found[task.id] = self._telling(task)
            except (QueryError, BadData, Fault):
                self._found[task.id] = []
        return self._found[task.id]

    def _telling(self, task: Task) -> list[int] | None:
        path = Path(task.data["path"])
        gold, gold_result = rewritten_gold(Database(path), task.data, self.rule)

        def another(database: Database) -> bool:
            return not comparison(task.data, self.rule).same(database.run(gold), gold_result)

        if any(another(Database(other)) for other in _beside(path)):
            return []
        telling: list[int] = []
        for number in range(TRIES):
            content = variant(path, number, gold)
            if content is None:
                break
            with closing(Database(content)) as database, suppress(QueryError):
                if another(database):
                    telling.append(number)
            if len(telling) == self.variants:
                break
        return telling or None


def _beside(visible: Path) -> list[Path]:
    """Return the other databases in the folder of the visible database."""
    return [path for path in sorted(visible.parent.glob("*.sqlite")) if path != visible]


def load(data: str, variants: int, rule: str = "published", reading: Reading = PLAIN) -> Questions:
    """Load a folder of Spider or BIRD, or one of its files; cached per process.

    Raises:
        BadData: there is no usable row, or with `reading.strict`, a row is bad; the message gives file and number.
    """
    path = find_path(data, Path.exists, "nothing at", COPY)
    files = _files(path)
    if not files:
        for other in sorted(path.glob("*.jsonl")):
            _refuse_others(other)
        expected = ", ".join(name for names in FILES.values() for name in names)
        raise BadData(f"{path} holds no questions of Spider or BIRD; expected one of {expected}")
    return _read(tuple((split, str(file), file.stat().st_mtime_ns) for split, file in files), variants, rule, reading)


def _files(path: Path) -> list[tuple[str, Path]]:
    if path.is_dir():
        return [(split, path / name) for split, names in FILES.items() for name in names if (path / name).is_file()]
    split = next((split for split in FILES if split in path.stem), "dev")
    return [(split, path)]


@lru_cache(maxsize=4)
def _read(files: tuple[tuple[str, str, int], ...], variants: int, rule: str, reading: Reading) -> Questions:
    records = (
        (f"{name}, question {number}", path, split, number, raw)
        for split, name, _ in files
        for path in (Path(name),)
        for number, raw in enumerate(_objects(path))
    )
    databases: dict[tuple[Path, str, str], str] = {}  # shared by many questions

    def read(where: str, path: Path, split: str, number: int, raw: dict[str, Any]) -> Task:
        key = (path, split, _text(raw, "db_id", where))
        if key not in databases:
            databases[key] = str(_database(path.parent, split, key[2], where))
        return _task(where, path, split, number, raw, databases[key], reading)

    tasks = playable(", ".join(name for _, name, _ in files), records, read, reading, "question")
    return Questions(files[0][1], tuple(tasks.values()), "question", variants=variants, rule=rule)


def _objects(path: Path) -> list[dict[str, object]]:
    try:
        value = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        _refuse_others(path)
        raise BadData(f"{path}, line {error.lineno}: {error.msg}; expected a JSON list of questions") from error
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise BadData(f"{path}: {error}; expected a JSON list of questions in UTF-8") from error
    if not isinstance(value, list):
        raise BadData(f"{path}: a JSON {type(value).__name__}; expected a list of questions")
    for number, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            raise BadData(f"{path}, question {number}: {str(item)[:60]!r}; expected an object")
        _refuse_other(path, cast("dict[str, object]", item))
    return cast("list[dict[str, object]]", value)


def _refuse_others(path: Path) -> None:
    """Raise BadData if the first line of a JSON Lines file is a question of another data set."""
    first: object = None
    with suppress(ValueError, RecursionError, OSError), path.open("rb") as file:
        first = json.loads(file.readline())
    if isinstance(first, dict):
        _refuse_other(path, cast("dict[str, object]", first))


def _refuse_other(path: Path, raw: dict[str, object]) -> None:
    """Check that a question is not of another data set with a similar layout.

    Sources: salesforce/WikiSQL 01264b66, README.md (`sel`, `agg`, `conds`); xlang-ai/Spider2 0c85cc21,
    spider2-lite/evaluation_suite/evaluate.py (`condition_cols`, gold results as CSV; BigQuery, Snowflake, SQLite).

    Raises:
        BadData: the question is of WikiSQL, Spider 2 or KaggleDBQA.
    """
    name = ""
    if "table_id" in raw and isinstance(raw.get("sql"), dict):
        name = "WikiSQL, whose answers are no SQL but numbers of a column, an operator and conditions"
    elif "instance_id" in raw and ("external_knowledge" in raw or "db" in raw):
        name = "Spider 2, which compares results with chosen columns of reference files, most of them not of SQLite"
    elif raw.get("db_id") in KAGGLE:
        name = "KaggleDBQA, whose own rules are not implemented"
    if name:
        raise BadData(f"{path} is a file of {name}; expected Spider or BIRD, the evaluations that are known here")


def _task(where: str, path: Path, split: str, number: int, raw: dict[str, Any], database: str, reading: Reading) -> Task:
    bird = "SQL" in raw
    gold = _text(raw, "SQL" if bird else "query", where)
    data: dict[str, Any] = {
        "question": whole_question(raw, _text(raw, "question", where), KNOWN, reading.ignore, where),
        "evidence": str(raw.get("evidence") or "").strip(),
        "database": _text(raw, "db_id", where),
        "path": database,
        "gold": gold.rstrip().rstrip(";"),
        "ordered": ordered(gold),
        "any_columns": not bird,
        "evaluation": "bird" if bird else "spider",
    }
    id = str(raw.get("question_id", "")) or f"{path.stem}/{number}"
    levels = {"simple": 0, "moderate": 1, "challenging": 2}
    return Task(data["question"], data, id=id, split=split, difficulty=levels.get(str(raw.get("difficulty")), 0))


def _database(folder: Path, split: str, name: str, where: str) -> Path:
    """Return the file of the database `name` in one of the published folders.

    Raises:
        BadData: the name is not plain, or the file is missing.
    """
    if not re.fullmatch(r"[\w\-. ]+", name) or name.startswith("."):
        raise BadData(f"{where}: db_id is {name[:60]!r}; expected the plain name of a database")
    choices = [folder / form.format(split=split) / name / f"{name}.sqlite" for form in FOLDERS]
    for choice in choices:
        if choice.is_file():
            return choice
    tried = ", ".join(str(choice.relative_to(folder)) for choice in choices)
    raise BadData(f"{where}: no database {name!r} in {folder} (looked for {tried})")


def _text(raw: dict[str, object], key: str, where: str) -> str:
    value = raw.get(key)
    if value is None:
        raise BadData(f"{where}: no {key}, only {', '.join(sorted(raw)[:12]) or 'nothing'}; expected text")
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected text")
    return value.strip().encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def ordered(gold: str) -> bool:
    """Return True if a gold query orders its rows, that is, has an ORDER BY outside brackets and strings.

    Spider's test suite looks for ORDER BY anywhere, although in a subquery or a window it does not order the result.
    """
    text = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "", gold)
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return re.search(r"\border\s+by\b", text, re.IGNORECASE) is not None
