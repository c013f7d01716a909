"""Type of a result of `json.loads` from an untrusted source, which `isinstance` narrows for the type checker."""

from typing import TypeAlias

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
Object: TypeAlias = dict[str, JSON]


def table(value: JSON) -> Object:
    """Return `value` if it is a JSON object, else an empty dict."""
    return value if isinstance(value, dict) else {}


def entries(value: JSON) -> list[JSON]:
    """Return `value` if it is a JSON array, else an empty list."""
    return value if isinstance(value, list) else []
