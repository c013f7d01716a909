"""Other contents for a database that has none: rows left out, references kept whole."""

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from agentgym.errors import Fault

LARGEST = 8 * 2**20
"""Bytes of the largest database that is copied into memory."""
PASSES = 20


def variant(path: Path, number: int) -> bytes | None:
    """Return a copy without a third of its rows, which third depending on the number.

    None for a database too large to copy, or one whose references cannot be kept whole: there a query may be right on
    the whole and differ on a part. Raises Fault where the file is damaged.
    """
    status = path.stat()
    if status.st_size > LARGEST:
        return None
    return _variant(path, status.st_mtime_ns, number)


@lru_cache(maxsize=32)
def _variant(path: Path, _time: int, number: int) -> bytes | None:
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as source:
                source.backup(copy)
            if _dangling(copy) is None:
                return None
            _thin(copy, number)
            return copy.serialize()
    except sqlite3.DatabaseError as error:
        raise Fault(f"{path} is damaged: {error}") from error


def _thin(copy: sqlite3.Connection, number: int) -> None:
    names = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
    copy.execute("BEGIN")
    for (name,) in names:
        try:
            copy.execute(f"DELETE FROM {_quoted(name)} WHERE (rowid * 7 + {number}) % 3 = 0")
        except sqlite3.OperationalError:  # a view's table, or one without rowids: left as it is
            continue
    for _ in range(PASSES):
        dangling = _dangling(copy) or []
        if not dangling:
            break
        for table, row in dangling:
            copy.execute(f"DELETE FROM {_quoted(table)} WHERE rowid = ?", (row,))
    copy.execute("COMMIT")


def _dangling(copy: sqlite3.Connection) -> list[tuple[str, int]] | None:
    """Return the rows whose references lead nowhere; None where the schema's references cannot be followed."""
    try:
        found = copy.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.OperationalError:
        return None
    return [(table, row) for table, row, *_ in found if row is not None]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
