"""Readers for fields of JSON requests, used by the APIs other than Chat Completions."""

from collections.abc import Mapping, Sequence
from typing import cast

from agentgym.gateway.requests import Refusal


def table(raw: object, name: str) -> dict[str, object]:
    """Return a value that must be a JSON object; `name` is for the error message.

    Raises:
        Refusal: the value is not an object.
    """
    if not isinstance(raw, dict):
        raise Refusal(400, f"{name} must be an object", None, name)
    return cast("dict[str, object]", raw)


def entries(raw: object, name: str) -> list[object]:
    """Return a value that must be a list; `name` is for the error message.

    Raises:
        Refusal: the value is not a list.
    """
    if not isinstance(raw, list):
        raise Refusal(400, f"{name} must be a list", None, name)
    return cast("list[object]", raw)


def string(raw: Mapping[str, object], key: str, name: str) -> str:
    """Return the field `key` of an object, which must be a string.

    Raises:
        Refusal: the field is not a string.
    """
    value = raw.get(key)
    if not isinstance(value, str):
        raise Refusal(400, f"{name}.{key} must be a string", None, name)
    return value


def text(raw: object, name: str, kinds: Sequence[str]) -> str:
    """Return the text of a string, or of a list of parts whose `type` is one of `kinds`.

    Raises:
        Refusal: a part is not text.
    """
    if isinstance(raw, str):
        return raw
    parts: list[str] = []
    for place, entry in enumerate(entries(raw, name)):
        part = table(entry, f"{name}[{place}]")
        if part.get("type", kinds[0]) not in kinds:
            why = (
                f"{name}[{place}] is of type {str(part.get('type'))[:40]!r}; replies are made from text: {', '.join(kinds)}"
            )
            raise Refusal(400, why, None, name)
        parts.append(string(part, "text", f"{name}[{place}]"))
    return "\n\n".join(parts)


def refuse(raw: Mapping[str, object], why: Mapping[str, str]) -> None:
    """Refuse a request with an unsupported field that would change the reply; `why` has the reasons by field.

    Raises:
        Refusal: the field is set; the message has the reason.
    """
    for name, reason in why.items():
        if raw.get(name) not in (None, [], {}, "", 0, False):
            raise Refusal(400, f"{name}: {reason}", "unsupported_parameter", name)


def function(name: object, about: object, schema: object) -> dict[str, object]:
    """Return a tool as Chat Completions describes it."""
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def call(id: str, name: str, arguments: str) -> dict[str, object]:
    """Return a tool call as Chat Completions writes it; `arguments` is JSON text."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def schema_form(raw: object) -> object:
    """Convert another API's output format to a `response_format`, which has schema and name in a nested object."""
    if not isinstance(raw, dict):
        return raw
    schema = cast("dict[str, object]", raw)
    if schema.get("type") != "json_schema":
        return schema
    inner = {key: value for key, value in schema.items() if key != "type"}
    return {"type": "json_schema", "json_schema": {"name": "reply", **inner}}
