"""Validation of a JSON object's fields as they are read; every error names the location and the expectation."""

import ast
import json
import symtable
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

from agentgym.errors import BadData
from agentgym.rewards.programs.syntax import parse
from agentgym.rewards.programs.values import NotData, pack
from agentgym.tasks.columns import OtherLanguageRow

Data = dict[str, Any]
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Exceptions that parsing a text as Python may raise."""
T = TypeVar("T")


def readable(source: str) -> bool:
    """Return True if a text can be parsed as Python; it is not compiled or run."""
    try:
        _quietly(parse, source)
    except UNREADABLE:
        return False
    return True


def python(source: str, what: str, where: str) -> ast.Module:
    """Return the syntax tree of a text; raise OtherLanguageRow, naming `where` and `what`, if the text is not Python."""
    return _python(parse, source, what, where)


def top_names(source: str, what: str, where: str) -> frozenset[str]:
    """Return the names that a text defines at module level.

    Raises:
        OtherLanguageRow: the text is not Python.
    """
    names, problem = _top_names(source)
    if problem:
        raise OtherLanguageRow(f"{where}: {what} {problem}")
    return names


@lru_cache(maxsize=2048)
def _top_names(source: str) -> tuple[frozenset[str], str]:
    """Return the names that a text defines, and its syntax error or ""; cached, since files are read repeatedly."""
    try:
        table = _quietly(_table, source)
    except UNREADABLE as error:
        return frozenset(), _no_python(error)
    return frozenset(name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()), ""


def _table(source: str) -> symtable.SymbolTable:
    return symtable.symtable(source, "<unknown>", "exec")


def _python(read: Callable[[str], T], source: str, what: str, where: str) -> T:
    try:
        return _quietly(read, source)
    except UNREADABLE as error:
        raise OtherLanguageRow(f"{where}: {what} {_no_python(error)}") from None


def _no_python(error: Exception) -> str:
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"is no Python of version {VERSION}: {reason}{line}; expected Python, the only language that is graded here"


def _quietly(read: Callable[[str], T], source: str) -> T:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's warnings belong where the code runs
        return read(source)


VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def text(raw: Data, key: str, where: str) -> str:
    """Return the text under a key.

    Raises:
        BadData: the key is missing, or its value is blank or not a text.
    """
    value = raw.get(key)
    if value is None:
        raise BadData(f"{where}: no {key}, only {', '.join(sorted(raw)[:12]) or 'nothing'}; expected text")
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected text")
    return value


def texts(raw: Data, key: str, where: str) -> list[str]:
    """Return the list of texts under a key, empty if the key is absent.

    Raises:
        BadData: the value is not a list of texts.
    """
    value = entries(raw.get(key) or [], f"{where}: {key}")
    if not all(isinstance(item, str) for item in value):
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected a list of texts")
    return value


def number(raw: Data, key: str, where: str) -> float:
    """Return the non-negative number under a key, 0 if the key is absent.

    Raises:
        BadData: the value is not a number, or negative.
    """
    value = raw.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected a number from 0")
    return float(value)


def entries(value: object, where: str) -> list[Any]:
    """Check that a value is a list and return it.

    Raises:
        BadData: the value is not a list.
    """
    if not isinstance(value, list):
        raise BadData(f"{where}: {str(value)[:60]!r}; expected a list")
    return cast("list[object]", value)


def table(value: object, where: str, *keys: str) -> Data:
    """Check that a value is an object with these keys and return it.

    Raises:
        BadData: the value is not an object, or lacks a key.
    """
    if not isinstance(value, dict) or not set(keys) <= value.keys():
        raise BadData(
            f"{where}: {str(cast('object', value))[:60]!r}; expected an object with {', '.join(keys) or 'its keys'}"
        )
    return cast("Data", value)


def parsed(value: object, where: str) -> object:
    """Return the value of a JSON text; return any other value unchanged.

    Raises:
        BadData: the text is not JSON.
    """
    try:
        return json.loads(value) if isinstance(value, str | bytes) else value
    except (ValueError, RecursionError) as error:
        raise BadData(f"{where}: {error}; expected JSON") from error


def packed(value: object, where: str) -> Any:
    """Pack a value as the input or result of a test.

    Raises:
        BadData: a program cannot receive the value.
    """
    try:
        return pack(value)
    except NotData as error:
        raise BadData(f"{where}: a test that cannot be given to a program: {error}") from error
