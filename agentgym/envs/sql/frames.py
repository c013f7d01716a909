"""The content of a question, independent of its wording: a frame, and the SQL clauses for the parts of a frame."""

import re
from dataclasses import dataclass

from agentgym.envs.sql.schemas import Column, Schema, Table

Path = tuple[str, ...]
"""Path from a table to a column: names of references, then a column's name, such as ("book", "author", "country")."""

OPERATORS = ("=", ">", "<", ">=", "<=", "null", "known", "after", "before", "year")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the column at the end of a path.

    `value` is a number, or text as spelled in the question; None for the operators `null` and `known`.
    """

    path: Path
    operator: str
    value: str | float | int | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """One question: its family, a table, and the parameters that the family needs."""

    family: str
    table: str
    where: tuple[Condition, ...] = ()
    either: bool = False
    """True if the conditions are joined by OR instead of AND."""
    column: Path = ()
    number: Path = ()
    group: Path = ()
    aggregate: str = ""
    count: int = 0
    """Number of rows, rank or threshold, depending on the family."""
    parent: str = ""
    """Name of the reference in families that relate the table to its target, for example by counting rows per target."""


class Clauses:
    """The FROM and WHERE clauses for a frame, with the joins that its paths need.

    The alias of the frame's table is `t`; joined tables are `j1`, `j2`, …
    """

    def __init__(self, schema: Schema, table: str, spellings: dict[tuple[str, str, str], str] | None = None) -> None:
        self.schema, self.table = schema, schema.by_name[table]
        self._spellings = spellings or {}
        self._alias: dict[Path, str] = {}
        self._joins: list[str] = []

    @property
    def source(self) -> str:
        """FROM clause without its keyword."""
        if not self._joins:
            return self.table.name
        return " ".join([f"{self.table.name} AS t", *self._joins])

    def at(self, path: Path) -> tuple[str, Table, Column]:
        """Return the alias, table and column at the end of a path, and add the joins that it needs."""
        table, so_far, alias = self.table, (), "t"
        for step in path[:-1]:
            column = table.by_name[step]
            target, so_far = self.schema.by_name[column.target], (*so_far, step)
            if so_far not in self._alias:
                self._alias[so_far] = f"j{len(self._alias) + 1}"
                self._joins.append(
                    f"JOIN {target.name} AS {self._alias[so_far]} ON {self._alias[so_far]}.id = {alias}.{column.stored}"
                )
            table, alias = target, self._alias[so_far]
        return alias, table, table.by_name[path[-1]] if path[-1] != "id" else _KEY

    def name(self, path: Path) -> str:
        """Return the qualified name of the column at the end of a path; call `plain` on the finished query."""
        alias, _, column = self.at(path)
        return f"{alias}.{column.stored}"

    def where(self, frame: Frame, *more: str) -> str:
        """Return the WHERE clause for a frame and the SQL tests `more`, with a leading space; empty without any test."""
        conditions = (" OR " if frame.either else " AND ").join(self.test(condition) for condition in frame.where)
        if frame.either and more:
            conditions = f"({conditions})"
        tests = [test for test in (conditions, *more) if test]
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def test(self, condition: Condition) -> str:
        """Return a condition as SQL."""
        alias, table, column = self.at(condition.path)
        name, value = f"{alias}.{column.stored}", condition.value
        if condition.operator == "null":
            return f"{name} IS NULL"
        if condition.operator == "known":
            return f"{name} IS NOT NULL"
        if condition.operator == "year":
            return f"{name} BETWEEN '{value}-01-01' AND '{value}-12-31'"
        operator = {"after": ">", "before": "<"}.get(condition.operator, condition.operator)
        if isinstance(value, str):
            value = self._spellings.get((table.name, column.name, value), value)
            return f"{name} {operator} '{value}'"
        return f"{name} {operator} {value}"

    def plain(self, sql: str) -> str:
        """Return the query, without the prefix `t.` if there is only one table."""
        return sql if self._joins else re.sub(r"\bt\.(?=\w)", "", sql)


_KEY = Column("id", "integer")
