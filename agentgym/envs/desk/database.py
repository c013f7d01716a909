"""An episode's database: tasks share read-only tables, and changes are stored as an overlay."""

from hashlib import blake2b
from typing import Any

LONGEST_KEY = 200
"""Maximum length, in characters, of search conditions that are stored verbatim; longer ones are hashed."""
Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
Place = tuple[str, str]
"""A table and a row's key; for a search, the table and the search conditions."""
Delta = tuple[tuple[str, str, str], ...]
"""All differences from the initial database as sorted (table, key, row) triples, for comparison."""


class Refused(Exception):
    """The desk's system cannot execute a call; the message gives the reason, and nothing changes."""


class NotShownYet(Exception):
    """The expert's view of the database was asked for a row or search that the agent has not seen."""

    def __init__(self, table: str, key: str, fields: Row | None = None) -> None:
        super().__init__(f"{table} {key} was not shown")
        self.table, self.key, self.fields = table, key, fields


class Database:
    """Tables of rows by key. `seen` records the rows and searches shown to the agent; a `view` returns only these."""

    def __init__(self, base: Tables, changes: dict[Place, Row], seen: set[Place], *, view: bool = False) -> None:
        self.base, self.changes, self.seen, self.view = base, changes, seen, view

    def peek(self, table: str, key: str) -> Row:
        """Return a row without recording it as seen.

        Raises:
            Refused: there is no such row.
        """
        row = self.changes.get((table, key)) or self.base.get(table, {}).get(key)
        if row is None:
            raise Refused(f"There is no {key[:40]!r} among the {table}.")
        return row

    def get(self, table: str, key: str) -> Row:
        """Return a row and, unless this is a view, record the row as seen.

        Raises:
            NotShownYet: this is a view, and the agent has not seen the row.
            Refused: there is no such row.
        """
        if self.view:
            if (table, key) not in self.seen:
                raise NotShownYet(table, key)
            return self.peek(table, key)
        row = self.peek(table, key)
        self.seen.add((table, key))
        return row

    def where(self, table: str, **fields: object) -> dict[str, Row]:
        """Return the rows with these field values, ordered by key.

        Unless this is a view, record the search and the rows as seen.

        Raises:
            NotShownYet: this is a view, and the agent has not made this search.
        """
        search_key = (table, _short(repr(sorted(fields.items()))))
        if self.view and search_key not in self.seen:
            raise NotShownYet(table, search_key[1], fields)
        keys = sorted({*self.base.get(table, {}), *(key for name, key in self.changes if name == table)})
        rows = {key: self.peek(table, key) for key in keys}
        matching = {key: row for key, row in rows.items() if all(row[name] == value for name, value in fields.items())}
        if not self.view:
            self.seen.update([search_key, *((table, key) for key in matching)])
        return matching

    def change(self, table: str, key: str, **fields: object) -> None:
        """Change fields of a row."""
        self.put(table, key, {**self.peek(table, key), **fields})

    def put(self, table: str, key: str, row: Row) -> None:
        """Insert or replace a row."""
        if self.base.get(table, {}).get(key) == row:
            self.changes.pop((table, key), None)
        else:
            self.changes[table, key] = row

    def delta(self) -> Delta:
        """Return the differences from the initial database."""
        return tuple(sorted((table, key, repr(sorted(row.items()))) for (table, key), row in self.changes.items()))


def _short(conditions: str) -> str:
    """Return the conditions, or their hash if they are long, since snapshots store every search."""
    return conditions if len(conditions) <= LONGEST_KEY else blake2b(conditions.encode(), digest_size=16).hexdigest()
