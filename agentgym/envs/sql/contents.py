"""Rows of generated databases: a pure function of the schema, a seed, the number of rows and the spelling of categories."""

import datetime
import sqlite3
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.sql.schemas import FIRST_DATE, LAST_DATE, SCHEMAS, Column, Table, create

FIRST = ("Anna", "Boris", "Clara", "David", "Elena", "Frida", "Georg", "Hanna", "Igor", "Julia", "Karim", "Lena")
LAST = ("Berg", "Castro", "Dahl", "Ekman", "Fuchs", "Grant", "Hansen", "Ibarra", "Jansen", "Keller")
ADJECTIVES = ("Silver", "Quiet", "Broken", "Golden", "Hidden", "Little", "Northern", "Paper", "Restless", "Winter")
NOUNS = ("Mirror", "Harbour", "River", "Garden", "Letter", "Tower", "Forest", "Engine", "Island", "Shadow")
HILLS = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Linden", "Maple", "Oak", "Pine", "Rowan")
ENDS = ("hill", "ford", "bridge", "field", "port", "wood")
ALIKE = 0.25
"""Share of names that repeat an earlier name or differ from it by one letter."""
ABSENT = 0.25
"""Share of NULL values in nullable columns."""
STYLES = {"plain": str, "upper": str.upper, "title": str.title}
"""Spellings of stored categories; questions always use the spelling of the schema."""

_DAYS = (datetime.date.fromisoformat(LAST_DATE) - datetime.date.fromisoformat(FIRST_DATE)).days


@lru_cache(maxsize=512)
def content(schema: str, seed: int, rows: int, style: str, only: str = "") -> bytes:
    """Generate a database and return it as the bytes of a SQLite file; recent databases are cached.

    The first table has about `rows` / 2 rows, and each later one about `rows` / 4 more. `style` is a key of `STYLES`. `only`
    names a single table to create, with about `rows` rows and without its references; empty: all tables.
    """
    rng = generator("sql contents", schema, seed, rows, style, only)
    tables = tables_of(schema, only)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA page_size = 1024")
    connection.executescript(";\n".join(create(table) for table in tables))
    connection.execute("BEGIN")
    keys: dict[str, list[int]] = {}
    for depth, table in enumerate(tables):
        size = 1.0 if only else 0.5 + 0.25 * depth
        count = max(6, int(rows * size * (0.8 + 0.4 * rng.random())))
        keys[table.name] = [int(key) for key in np.cumsum(rng.integers(1, 4, size=count))]  # keys with gaps
        values = [[*_column(rng, table, column, keys, STYLES[style])] for column in table.columns]
        places = ", ".join("?" * (1 + len(values)))
        connection.executemany(f"INSERT INTO {table.name} VALUES ({places})", zip(keys[table.name], *values, strict=True))
    connection.execute("COMMIT")
    content_bytes = connection.serialize()
    connection.close()
    return content_bytes


def tables_of(schema: str, only: str = "") -> list[Table]:
    """Return the tables that `content` creates."""
    return [table.alone() if only else table for table in SCHEMAS[schema].tables if only in ("", table.name)]


def _column(
    rng: np.random.Generator, table: Table, column: Column, keys: dict[str, list[int]], style: Callable[[str], str]
) -> Iterator[object]:
    """Yield a column's values, one for each key of its table."""
    count = len(keys[table.name])
    absent = rng.random(count) < (ABSENT if column.nullable else 0.0)
    drawn = _drawn(rng, column, count, keys, style)
    for gone, value in zip(absent, drawn, strict=True):
        yield None if gone else value


def _drawn(
    rng: np.random.Generator, column: Column, count: int, keys: dict[str, list[int]], style: Callable[[str], str]
) -> list[str] | list[int] | list[float]:
    if column.kind == "reference":
        targets = keys[column.target]
        referenced = targets[: max(2, int(0.8 * len(targets)))]  # the rest is never referenced
        return [referenced[int(len(referenced) * rng.random() ** 1.5)] for _ in range(count)]
    if column.kind == "category":
        return [style(column.values[int(i)]) for i in rng.integers(len(column.values), size=count)]
    if column.kind == "integer":
        return [int(value) for value in rng.integers(int(column.low), int(column.high) + 1, size=count)]
    if column.kind == "real":
        return [round(float(value), 2) for value in column.low + (column.high - column.low) * rng.random(count)]
    if column.kind == "date":
        start = datetime.date.fromisoformat(FIRST_DATE)
        return [(start + datetime.timedelta(days=int(day))).isoformat() for day in rng.integers(_DAYS + 1, size=count)]
    return _names(rng, column.kind, count)


def _names(rng: np.random.Generator, kind: str, count: int) -> list[str]:
    parts = {"person": (FIRST, " ", LAST), "title": (ADJECTIVES, " ", NOUNS), "place": (HILLS, "", ENDS)}
    heads, between, tails = parts[kind]
    names: list[str] = []
    for _ in range(count):
        if names and rng.random() < ALIKE:
            name = names[int(rng.integers(len(names)))]
            name = name if rng.random() < 0.5 else name + "s"
        else:
            name = heads[int(rng.integers(len(heads)))] + between + tails[int(rng.integers(len(tails)))]
        names.append(name)
    return names
