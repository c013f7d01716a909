"""Variants of a database: rows are removed, and values moved and changed; references stay intact."""

import re
import sqlite3
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from agentgym.core.seeding import generator
from agentgym.errors import Fault

LARGEST = 8 * 2**20
"""Maximum bytes of a database that is copied into memory."""
PASSES = 20
PLAIN = 3
"""Variants from this number on depend on the gold query: they contain values that the query compares with."""
_LITERAL = re.compile(
    r"""(?:\w+\.)?["`\[]?(?P<column>\w+)["`\]]?\s*(?:=|==|!=|<>|<=?|>=?|\bnot\s+like\b|\blike\b|\bbetween\b|\bin\s*\(|\bis\b)\s*"""
    r"""(?P<value>'(?:[^']|'')*'|"[^"]*"|-?\d+(?:\.\d+)?)(?:\s*(?:and|,)\s*(?P<second>'(?:[^']|'')*'|-?\d+(?:\.\d+)?))?""",
    re.IGNORECASE,
)


def variant(path: Path, number: int, gold: str = "") -> bytes | None:
    """Return variant `number` (from 0) of a database, as the bytes of a SQLite file; None if no variant can be made.

    A third of the rows is removed, those with (rowid + number) % 3 == 0, and so are rows with references to removed rows.
    From number 1 on, values of non-key columns move to other rows. From `PLAIN` on, half of the values in columns that the
    gold query compares are replaced by the compared value, or by a number just above or below. No variant can be made of a
    database that is too large to copy, or with references that cannot be checked: even a correct query could give a
    different result on a part of such a database.

    Raises:
        Fault: the file is damaged.
    """
    status = path.stat()
    if status.st_size > LARGEST:
        return None
    return _variant(path, status.st_mtime_ns, number, gold if number >= PLAIN else "")


@lru_cache(maxsize=32)
def _variant(path: Path, _time: int, number: int, gold: str) -> bytes | None:
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as source:
                source.backup(copy)
            if _dangling(copy) is None:
                return None
            copy.text_factory = partial(str, encoding="utf-8", errors="replace")  # for names; values are never read here
            copy.execute("PRAGMA temp_store = MEMORY")
            names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            tables = [str(name) for (name,) in copy.execute(names).fetchall()]
            copy.execute("BEGIN")
            if number:
                _move(copy, tables, number, compared(gold))
            _thin(copy, tables, number)
            copy.execute("COMMIT")
            return copy.serialize()
    except sqlite3.DatabaseError as error:
        raise Fault(f"{path} is damaged: {error}") from error


def compared(gold: str) -> dict[str, list[object]]:
    """Return the values with which a query compares columns, and values near them, by lower-case column name."""
    answers: dict[str, list[object]] = {}
    for match in _LITERAL.finditer(gold):
        for text in filter(None, (match["value"], match["second"])):
            answers.setdefault(match["column"].lower(), []).extend(_values(text))
    return answers


def _values(text: str) -> list[object]:
    """Return the values for a literal: a text without wildcards of LIKE, or a number and its two neighbors."""
    if text[0] in "'\"":
        inner = text[1:-1].replace("''", "'")
        return [inner.replace("%", "").replace("_", "x")] if "%" in inner else [inner]
    number = float(text) if "." in text else int(text)
    return [number, number + 1, number - 1]


def _move(copy: sqlite3.Connection, tables: list[str], number: int, values: dict[str, list[object]]) -> None:
    """Rotate each non-key column by a random number of rows; write the column's `values`, if any, into half of the rows."""
    keys = _keys(copy, tables)
    copy.execute("CREATE TEMP TABLE place (row INTEGER PRIMARY KEY, at INT)")
    copy.execute("CREATE TEMP TABLE moved (at INTEGER PRIMARY KEY, value)")
    for table in tables:
        copy.execute("DELETE FROM temp.place")
        source = f"main.{_quoted(table)}"
        try:
            copy.execute(f"INSERT INTO temp.place SELECT rowid, row_number() OVER (ORDER BY rowid) - 1 FROM {source}")
        except sqlite3.OperationalError:  # a table without rowids stays unchanged
            continue
        (count,) = copy.execute("SELECT COUNT(*) FROM temp.place").fetchone()
        names = [str(row[1]) for row in copy.execute(f"PRAGMA table_info({_quoted(table)})")]
        for name in names if count > 1 else ():
            if (table.lower(), name.lower()) not in keys:
                rng = generator("sql variant", number, table, name)
                _move_column(copy, source, _quoted(name), count, rng, values.get(name.lower(), []))
    copy.execute("DROP TABLE temp.place")
    copy.execute("DROP TABLE temp.moved")


def _move_column(
    copy: sqlite3.Connection, table: str, column: str, count: int, rng: np.random.Generator, extra_values: list[object]
) -> None:
    by = 1 + int(rng.integers(count - 1))
    copy.execute("DELETE FROM temp.moved")
    copy.execute(
        f"INSERT INTO temp.moved SELECT (p.at + ?) % ?, t.{column} FROM {table} t JOIN temp.place p ON p.row = t.rowid",
        (by, count),
    )
    if extra_values:
        rows, places = rng.permutation(count)[: (count + 1) // 2], rng.integers(len(extra_values), size=count)
        pairs = [(extra_values[int(value)], int(row)) for value, row in zip(places, rows, strict=False)]
        copy.executemany("UPDATE temp.moved SET value = ? WHERE at = ?", pairs)
    place = f"(SELECT p.at FROM temp.place p WHERE p.row = {table}.rowid)"
    copy.execute(f"UPDATE OR IGNORE {table} SET {column} = (SELECT h.value FROM temp.moved h WHERE h.at = {place})")


def _keys(copy: sqlite3.Connection, tables: list[str]) -> set[tuple[str, str]]:
    """Return the columns that are unique, references, or referenced, as (table, column) in lower case."""
    keys: set[tuple[str, object]] = set()
    for table in tables:
        for _, name, _, _, _, key in copy.execute(f"PRAGMA table_info({_quoted(table)})").fetchall():
            keys |= {(table, name)} if key else set()
        for _, _, target, own, theirs, *_ in copy.execute(f"PRAGMA foreign_key_list({_quoted(table)})").fetchall():
            keys |= {(table, own), (target, theirs)}
        for _, index, unique, *_ in copy.execute(f"PRAGMA index_list({_quoted(table)})").fetchall():
            columns = copy.execute(f"PRAGMA index_info({_quoted(index)})").fetchall() if unique else []
            keys |= {(table, name) for _, _, name in columns}
    return {(str(table).lower(), str(name).lower()) for table, name in keys}


def _thin(copy: sqlite3.Connection, tables: list[str], number: int) -> None:
    for name in tables:
        try:
            copy.execute(f"DELETE FROM {_quoted(name)} WHERE (rowid + {number}) % 3 = 0")
        except sqlite3.OperationalError:  # a view, or a table without rowids, stays unchanged
            continue
    for _ in range(PASSES):
        dangling = _dangling(copy) or []
        if not dangling:
            break
        for table, row in dangling:
            copy.execute(f"DELETE FROM {_quoted(table)} WHERE rowid = ?", (row,))


def _dangling(copy: sqlite3.Connection) -> list[tuple[str, int]] | None:
    """Return (table, rowid) of each row with a dangling reference; None if SQLite cannot check the references."""
    try:
        dangling = copy.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.OperationalError:
        return None
    return [(table, row) for table, row, *_ in dangling if row is not None]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
