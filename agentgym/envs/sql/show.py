"""Databases and results as observation text."""

import difflib
import re

from agentgym.envs.sql.database import Database, QueryError, Result

CELL, PAGE = 80, 4000
"""Maximum characters of a value and of an observation."""
LONGEST_ERROR = 500
COUNTED = 1000
"""Maximum number of rows counted; observations of larger results say `more than`."""


def statements(database: Database) -> str:
    """Return the CREATE statements of tables and views; only their names and columns if the statements are too long."""
    rows = database.run("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid").rows
    created = [(str(name), str(sql)) for name, sql in rows if not str(name).startswith("sqlite_")]
    text = "\n".join(f"{sql.strip()};" for _, sql in created)
    if len(text) <= PAGE:
        return text
    names = "\n".join(f"{name}({', '.join(columns(database, name))})" for name, _ in created)
    return cut(f"{names}\nFor the full definition of one: SELECT sql FROM sqlite_master WHERE name = '…'")


def overview(database: Database) -> str:
    """Return each table with its number of rows, and its columns with their number of distinct values."""
    lines: list[str] = []
    for name in tables(database):
        fields = columns(database, name)
        if not fields:
            continue
        counts = ", ".join(f"COUNT(DISTINCT {quoted(name_of_field)})" for name_of_field in fields)
        rows, *different = database.run(f"SELECT COUNT(*), {counts} FROM {quoted(name)}").rows[0]
        lines.append(
            f"{name} {rows}: "
            + ", ".join(f"{name_of_field} {n}" for name_of_field, n in zip(fields, different, strict=True))
        )
    return cut("\n".join(lines))


def tables(database: Database) -> list[str]:
    """Return the names of the tables."""
    rows = database.run("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid").rows
    return [str(row[0]) for row in rows if not str(row[0]).startswith("sqlite_")]


def columns(database: Database, table: str) -> list[str]:
    """Return the names of a table's columns; empty for a view or a virtual table that queries cannot read."""
    try:
        return list(database.run(f"SELECT * FROM {quoted(table)}", first=0).columns)
    except QueryError:
        return []


def quoted(name: str) -> str:
    """Return a name in SQL syntax, unquoted if it is a plain word."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else '"' + name.replace('"', '""') + '"'


def table(result: Result, most: int) -> str:
    """Return a result as text: column names, at most `most` rows, and the number of rows, one per line."""
    lines = [" | ".join(cell(name) for name in result.columns)]
    lines += [" | ".join(cell(value) for value in row) for row in result.rows[:most]]
    count = len(result.rows)
    if result.more or count > most:
        total = f"more than {count}" if result.more else str(count)
        lines.append(f"(the first {min(most, count)} of {total} rows)")
    else:
        lines.append(f"({count} row{'' if count == 1 else 's'})")
    return cut("\n".join(lines), lines[-1])


def cell(value: object) -> str:
    """Return a value as one line of text with at most about `CELL` characters."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value[: CELL // 2].hex()}'"
    text = str(value)[: CELL + 1]
    text = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
    return text if len(text) <= CELL else f"{text[:CELL]}…"


def cut(text: str, last: str = "") -> str:
    """Return a text cut to `PAGE` characters; if it was cut, a note and `last` follow."""
    return text if len(text) <= PAGE else f"{text[:PAGE]} …\n(cut) {last}".rstrip()


def explained(error: str, database: Database) -> str:
    """Return SQLite's error message, with the closest existing name if a table or column does not exist."""
    error = error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]} …"
    match = re.search(r"no such (column|table): ([\w.\"]+)", error)
    if match is None:
        return error
    wrong = match[2].rsplit(".", 1)[-1]
    known = tables(database)
    if match[1] == "column":
        known = [column for name in known for column in columns(database, name)]
    near = difflib.get_close_matches(wrong, dict.fromkeys(known), n=1, cutoff=0.6)
    return f"{error}. Did you mean {near[0]}?" if near else f"{error}. schema[] shows the tables and columns."
