"""Safe conversion of values that come from other people's files."""

import ast
from typing import Any, cast

from agentgym.errors import BadData

LONGEST_LITERAL = 1_000_000  # characters; genuine ones have a few thousand


def read_literal(value: object, what: str, expected: str) -> object:
    """Return a value; if it is a string, parse it as a Python literal without executing code.

    `what` names the value in error messages, and `expected` describes the required form.

    Raises:
        BadData: the string is too long or not a literal.
    """
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST_LITERAL:
        raise BadData(f"{what} is a string of {len(value)} characters; at most {LONGEST_LITERAL} are read")
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise BadData(f"{what} is the string {value[:60]!r}, which is not a Python literal; expected {expected}") from error


def as_list(value: object, keys: tuple[str, str], what: str, expected: str) -> list[tuple[object, object]]:
    """Return pairs from a list of pairs, or from an object with two lists of equal length under `keys`.

    `what` names the value in error messages, and `expected` describes the required form.

    Raises:
        BadData: the value is neither.
    """
    if isinstance(value, dict):
        columns = [cast("dict[str, object]", value).get(key) for key in keys]
        if all(isinstance(column, list) for column in columns):
            first, second = cast("list[list[object]]", columns)
            if len(first) == len(second):
                return list(zip(first, second, strict=True))
    elif isinstance(value, list):
        pairs = cast("list[Any]", value)
        if all(isinstance(pair, list | tuple) and len(cast("list[object]", pair)) == 2 for pair in pairs):
            return [(pair[0], pair[1]) for pair in pairs]
    raise BadData(f"{what} is {str(cast('object', value))[:60]!r}; expected {expected}")
