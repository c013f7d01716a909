"""Structured output (`response_format`): parsing it, instructing the model, and extracting the JSON from a reply."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from agentgym.agents.parse import split_thought
from agentgym.gateway.tools import Message

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEYS = {"text": {"type"}, "json_object": {"type"}, "json_schema": {"type", "json_schema"}}
_FORM = "one JSON object and nothing else: no Markdown, no text before or after it."


@dataclass(frozen=True, slots=True)
class Form:
    """A required output format: one JSON object, with or without a schema."""

    schema: str = ""
    """JSON Schema of the object, as JSON text; empty for any object."""
    about: str = ""
    """The client's description of the object."""


def read_form(raw: object) -> Form | None:
    """Parse `response_format`; return None if it asks for plain text.

    Raises:
        ValueError: the value is malformed.
    """
    if raw is None:
        return None
    form = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    kind = form.get("type")
    if not isinstance(kind, str) or kind not in _KEYS or set(form) - _KEYS[kind]:
        raise ValueError("response_format must be {'type': 'text'}, {'type': 'json_object'} or a json_schema")
    if kind != "json_schema":
        return Form() if kind == "json_object" else None
    named = form.get("json_schema")
    inner = cast("dict[str, object]", named) if isinstance(named, dict) else {}
    name, schema, about = inner.get("name"), inner.get("schema"), inner.get("description") or ""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(about, str):
        raise ValueError("response_format.json_schema must have a name (letters, digits, _ and -)")
    if not isinstance(schema, dict) or not isinstance(inner.get("strict"), bool | None):
        raise ValueError("response_format.json_schema.schema must be a JSON Schema, strict true or false")
    return Form(json.dumps(schema, ensure_ascii=False), about)


def with_form(messages: Sequence[Message], form: Form | None, *, tools: bool) -> list[Message]:
    """Return the messages with an instruction about the format.

    The instruction is in the first system message, else in the first user message, else in a new system message. It has the
    same place in later requests, so that they extend the recorded conversation.
    """
    if form is None:
        return list(messages)
    text = f"Unless you call a tool, reply with {_FORM}" if tools else f"Reply with {_FORM}"
    if form.schema:
        text += f" It must be valid against this JSON Schema:\n{form.schema}"
    if form.about:
        text += f"\n{form.about}"
    roles = [message["role"] for message in messages]
    place = next((roles.index(role) for role in ("system", "user") if role in roles), None)
    if place is None:
        return [{"role": "system", "content": text}, *messages]
    first = messages[place]
    content = f"{first['content']}\n\n{text}" if first["content"] else text
    return [*messages[:place], {**first, "content": content}, *messages[place + 1 :]]


def answered(text: str, opened: bool) -> str:
    """Return the part of a reply that the client gets: the text after the thought, if there is one.

    It may not be valid JSON: that is the model's failure, which the client detects.
    """
    if not opened and text.lstrip().startswith("{"):  # the object itself, so tags inside it are not a thought
        return text
    thought, _, rest = split_thought(text, opened)
    return rest if thought else text
