"""Result of `json.loads` for untrusted values: `isinstance` narrows it for the type checker."""

from typing import TypeAlias

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
Object: TypeAlias = dict[str, JSON]


def table(value: JSON) -> Object:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: JSON) -> list[JSON]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []
