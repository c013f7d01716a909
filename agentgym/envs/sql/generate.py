"""Random questions; a question is accepted only if wrong queries give other results."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import numpy as np

from agentgym.envs.sql.contents import STYLES, content
from agentgym.envs.sql.families import FAMILIES, QuestionFamily, query, wrong_queries
from agentgym.envs.sql.frames import Condition, Frame, Path
from agentgym.envs.sql.queries import AGGREGATES
from agentgym.envs.sql.schemas import SCHEMAS, Column, Schema, Table
from agentgym.envs.sql.words import say
from agentgym.rewards.sql_result import same_result

INSTANCES = 4
"""Number of databases per question: a visible one, and hidden ones with the same schema and other contents."""
MOST_ROWS = 300
"""Maximum number of rows in the gold result of an accepted question on the visible database."""

T = TypeVar("T")
Data = dict[str, Any]


def families(difficulty: int, family: str) -> list[QuestionFamily]:
    """Return the families that `family` selects: a name, `one_table` (level 0), or empty (all of a difficulty).

    A difficulty has the families of its own level, at most 4, and of the two levels below.
    """
    if family == "one_table":
        return [family for family in FAMILIES.values() if family.level == 0]
    if family:
        return [FAMILIES[family]]
    highest = min(difficulty, 4)
    return [family for family in FAMILIES.values() if highest - 2 <= family.level <= highest]


def draw(rng: np.random.Generator, difficulty: int, family: str) -> Data | None:
    """Draw a question without databases and return its data; None if the drawn family does not suit the drawn table."""
    name = _pick(rng, sorted(SCHEMAS))
    kind = _pick(rng, families(difficulty, family))
    single = family == "one_table"
    table = _pick(rng, SCHEMAS[name].tables)
    frame = Drawing(rng, SCHEMAS[name], table, 0 if single else difficulty).frame(kind)
    if frame is None:
        return None
    spelled = single or not difficulty
    style = "plain" if spelled else _pick(rng, sorted(STYLES))
    return {
        "schema": name,
        "table": table.name if single else "",
        "question": say(frame, SCHEMAS[name], rng),
        "meaning": query(frame, SCHEMAS[name]),
        "gold": query(frame, SCHEMAS[name], spellings(SCHEMAS[name], style)),
        "wrong": wrong_queries(frame, SCHEMAS[name], spellings(SCHEMAS[name], style)),
        "family": kind.name,
        "ordered": kind.ordered,
        "rows": 16 + 8 * difficulty,
        "style": style,
        "spelled": spelled,
    }


def instances(data: Data) -> list[bytes]:
    """Return a question's databases, the visible one first."""
    return [content(data["schema"], seed, data["rows"], data["style"], data["table"]) for seed in data["seeds"]]


def seeded(data: Data, rng: np.random.Generator, tries: int = 4) -> Data | None:
    """Return the question's data with `seeds` of suitable databases (see `telling`); None if `tries` draws fail."""
    for _ in range(tries):
        whole = {**data, "seeds": [int(seed) for seed in rng.integers(2**31, size=INSTANCES)]}
        if telling(whole):
            return whole
    return None


def telling(data: Data) -> bool:
    """Return True if a question's databases distinguish right from wrong queries.

    The gold query's result must not depend on the order in which SQLite visits rows, and must differ between databases. On
    the visible database, it must have from 1 to `MOST_ROWS` rows, and must not be a single 0 or NULL. There must be at
    least two wrong queries, and each must give a wrong result on some database.
    """
    golds: list[list[tuple[object, ...]]] = []
    left = list(data["wrong"])
    for number, instance in enumerate(instances(data)):
        with closing(_connect(instance)) as connection:
            gold = connection.execute(data["gold"]).fetchall()
            if number == 0 and (not 0 < len(gold) <= MOST_ROWS or gold in ([(0,)], [(0.0,)], [(None,)])):
                return False
            connection.execute("PRAGMA reverse_unordered_selects = ON")
            if not same_result(connection.execute(data["gold"]).fetchall(), gold, ordered=data["ordered"]):
                return False
            golds.append(gold)
            left = [sql for sql in left if same_result(connection.execute(sql).fetchall(), gold, ordered=data["ordered"])]
    constant = all(same_result(gold, golds[0], ordered=data["ordered"]) for gold in golds[1:])
    return not left and not constant and len(data["wrong"]) >= 2


def _connect(content: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(content)
    return connection


def spellings(schema: Schema, style: str) -> dict[tuple[str, str, str], str]:
    """Return the stored form of each category: (table, column, form in questions) -> stored form."""
    return {
        (table.name, column.name, value): STYLES[style](value)
        for table in schema.tables
        for column in table.columns
        for value in column.values
    }


class Drawing:
    """Draws the parts of a frame about one table."""

    def __init__(self, rng: np.random.Generator, schema: Schema, table: Table, difficulty: int) -> None:
        self.rng, self.schema, self.table, self.difficulty = rng, schema, table, difficulty
        self.depth = max(0, min(3, difficulty - 1))
        """Maximum number of references in a path."""

    def frame(self, family: QuestionFamily) -> Frame | None:
        """Draw a frame of the family about the table; None without suitable columns, or if the question gives the answer."""
        parts: dict[str, Any] = {}
        for need in family.needs:
            frame = _DRAWN[need](self)
            if frame is None:
                return None
            parts |= frame
        where: tuple[Condition, ...] = parts.get("where", ())
        fixed = {condition.path for condition in where if condition.operator == "="}
        if parts.get("column") in {*fixed, parts.get("group"), parts.get("number")} - {None} or parts.get("group") in fixed:
            return None  # the answer would be known beforehand
        either = len(where) == 2 and self.difficulty > 0 and family.name in _EITHER and self.rng.random() < 0.3
        parts["either"] = either
        return Frame(family.name, self.table.name, **parts)

    def path(self, fits: Callable[[Column], bool], depth: int) -> Path | None:
        """Return a random path to a column that `fits` accepts, without nullable columns; None if there is none.

        `depth` is the maximum number of references.
        """
        paths = [path for path, column in self._paths(self.table, depth) if fits(column) and not column.nullable]
        return paths[int(self.rng.integers(len(paths)))] if paths else None

    def _paths(self, table: Table, depth: int) -> Iterator[tuple[Path, Column]]:
        for column in table.columns:
            if column.kind != "reference":
                yield (column.name,), column
            elif depth and not column.nullable:
                for path, end in self._paths(self.schema.by_name[column.target], depth - 1):
                    yield (column.name, *path), end

    def conditions(self, least: int) -> dict[str, object] | None:
        """Draw conditions on distinct columns and return them as the part `where`; None if too few are found.

        Their number is random: from `least` to 2 + difficulty // 3, or 0 or 1 if `least` is 0.
        """
        most = 2 + self.difficulty // 3
        count = int(self.rng.integers(least, most + 1)) if least else int(self.rng.integers(0, 2))
        conditions: dict[Path, Condition] = {}
        for _ in range(4 * count):
            if len(conditions) == count:
                break
            condition = self._condition()
            if condition is not None:
                conditions.setdefault(condition.path, condition)
        return {"where": tuple(conditions.values())} if len(conditions) == count else None

    def _condition(self) -> Condition | None:
        paths = list(self._paths(self.table, self.depth))
        if not paths:
            return None
        path, column = paths[int(self.rng.integers(len(paths)))]
        if column.kind == "category" and not column.nullable:
            return Condition(path, "=", _pick(self.rng, column.values))
        if column.kind == "integer" and not column.nullable:
            return Condition(path, _pick(self.rng, (">", "<", ">=", "<=")), self._threshold(column))
        if not self.difficulty:
            return None
        if column.nullable and self.rng.random() < 0.6:
            return Condition(path, _pick(self.rng, ("null", "known")))
        if column.counts:
            return Condition(path, _pick(self.rng, (">", "<")), self._threshold(column))
        if column.kind == "date":
            year = int(self.rng.integers(2019, 2024))
            operator = _pick(self.rng, ("after", "before", "year"))
            day = f"{year}-{int(self.rng.integers(1, 13)):02}-{int(self.rng.integers(1, 29)):02}"
            return Condition(path, operator, year if operator == "year" else day)
        return None

    def _threshold(self, column: Column) -> int | float:
        value = column.low + (column.high - column.low) * (0.2 + 0.6 * float(self.rng.random()))
        return int(value) if column.kind == "integer" else round(value) + 0.5

    def parent(self) -> dict[str, object] | None:
        """Draw a reference and a name column of its target as the parts `parent` and `column`; None if one is missing."""
        references = [column for column in self.table.columns if column.kind == "reference"]
        if not references:
            return None
        column = references[int(self.rng.integers(len(references)))]
        names = [named.name for named in self.schema.by_name[column.target].columns if named.names and not named.nullable]
        return {"parent": column.name, "column": (names[0],)} if names else None

    def parent_of(self) -> dict[str, object] | None:
        """Draw a reference that is never NULL, and return it as the part `parent`; None if the table has none."""
        references = [column.name for column in self.table.columns if column.kind == "reference" and not column.nullable]
        return {"parent": _pick(self.rng, references)} if references else None

    def named(self, part: str, fits: Callable[[Column], bool], depth: int) -> dict[str, object] | None:
        """Draw a path (see `path`) and return it as the part `part` of a frame; None if there is no such path."""
        path = self.path(fits, depth)
        return None if path is None else {part: path}

    def unknown(self) -> dict[str, object] | None:
        """Draw a nullable numeric column, and return it as the part `number`; None if the table has none."""
        candidates = [column.name for column in self.table.columns if column.counts and column.nullable]
        return {"number": (_pick(self.rng, candidates),)} if candidates else None


_DRAWN: dict[str, Callable[[Drawing], dict[str, object] | None]] = {
    "where": lambda drawing: drawing.conditions(1),
    "where?": lambda drawing: drawing.conditions(0),
    "column": lambda drawing: drawing.named("column", lambda c: True, 0),
    "number": lambda drawing: drawing.named("number", lambda c: c.counts, 0),
    "group": lambda drawing: drawing.named("group", lambda c: c.kind == "category", drawing.depth),
    "date": lambda drawing: drawing.named("column", lambda c: c.kind == "date", 0),
    "aggregate": lambda drawing: {"aggregate": _pick(drawing.rng, sorted(AGGREGATES))},
    "count": lambda drawing: {"count": int(drawing.rng.integers(2, 5))},
    "parent": Drawing.parent,
    "parent-of": Drawing.parent_of,
    "unknown": Drawing.unknown,
}


_EITHER = ("count", "list", "aggregate", "distinct", "groups", "group_values", "share", "months")
"""Families whose wording ends with the conditions, so that `or` between conditions is unambiguous."""


def _pick(rng: np.random.Generator, values: Sequence[T]) -> T:
    return values[int(rng.integers(len(values)))]
