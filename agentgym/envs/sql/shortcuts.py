"""Shortcut policies that answer without understanding the question; each has success 0."""

import re
from collections.abc import Callable, Mapping

from agentgym.core.actions import spell

_TABLE = re.compile(r"CREATE TABLE (\w+) \(\n  (.*?)\n\)", re.DOTALL)


def shortcuts() -> Mapping[str, Callable[[list[str]], str]]:
    """Return the shortcut policies by name; each maps all observations so far to an action."""
    return {
        "constant": lambda _: spell("answer", "SELECT 42"),
        "literals": literals,
        "select_star": select_star,
        "first_column": first_column,
        "count_rows": count_rows,
        "shown_result": shown_result,
        "empty_result": lambda _: spell("answer", "SELECT NULL WHERE 0"),
    }


def literals(observations: list[str]) -> str:
    """Answer with the question's first quoted text or number."""
    question = _question(observations)
    literals = re.findall(r"'[^']*'|\b\d+\b", question)
    return spell("answer", f"SELECT {literals[0] if literals else 1}")


def select_star(observations: list[str]) -> str:
    """Answer with all rows of the schema's first table that the question names."""
    return _after_schema(observations, lambda table, _: f"SELECT * FROM {table}")


def first_column(observations: list[str]) -> str:
    """Answer with a column of the schema's first table that the question names (see `_named`)."""
    return _after_schema(observations, lambda table, column: f"SELECT {column} FROM {table}")


def count_rows(observations: list[str]) -> str:
    """Answer with the number of rows of the schema's first table that the question names."""
    return _after_schema(observations, lambda table, _: f"SELECT COUNT(*) FROM {table}")


def shown_result(observations: list[str]) -> str:
    """Count the rows of a query, and answer with that number instead of the query."""
    if len(observations) == 1:
        return spell("schema")
    table, _ = _named(observations)
    literal = re.search(r"whose (\w+) \w+(?: \w+)* ('[^']*'|\d+)", _question(observations))
    if len(observations) == 2:
        test = f" WHERE {literal[1]} = {literal[2]}" if literal else ""
        return spell("query", f"SELECT COUNT(*) FROM {table}{test}")
    number = re.search(r"^(\d+)$", observations[-1], re.MULTILINE)
    return spell("answer", f"SELECT {number[1] if number else 0}")


def _after_schema(observations: list[str], write: Callable[[str, str], str]) -> str:
    if len(observations) == 1:
        return spell("schema")
    return spell("answer", write(*_named(observations)))


def _named(observations: list[str]) -> tuple[str, str]:
    """Return the schema's first table that the question names, and the table's first column that the question names.

    If the question names none, the schema's first table, and the last line of the table's definition (usually a column).
    """
    question = set(re.findall(r"\w+", _question(observations)))
    tables = _TABLE.findall(observations[1]) or [("sqlite_master", "name TEXT")]
    name, body = next((table for table in tables if table[0] in question), tables[0])
    columns = re.findall(r"^\s*(\w+)", body, re.MULTILINE)
    return name, next((column for column in columns if column in question), columns[-1])


def _question(observations: list[str]) -> str:
    return observations[0].split("\n", 1)[0].removeprefix("Question: ")
