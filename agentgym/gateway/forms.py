"""Reply formats (`response_format`): the client's request, the instruction to the model, and the client's part of the
reply.
"""

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
    """A JSON object, of any shape or of a schema."""

    schema: str = ""
    """A JSON Schema, as JSON; empty for an object of any shape."""
    about: str = ""
    """Description by the client."""


def read_form(raw: object) -> Form | None:
    """Return the form that `response_format` asks for; None for text.

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
    """Return the conversation with the format's instruction after the first system message, else after the first user
    message.

    It stays there in later requests, so that they extend the recorded conversation.
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
    """Return the client's part of a formatted reply, as sampled: the text after a thought, or all of it.

    Text that is not JSON is returned unchanged: the model failed, and the client detects it.
    """
    if not opened and text.lstrip().startswith("{"):  # the object itself: what it spells is no thought
        return text
    thought, _, rest = split_thought(text, opened)
    return rest if thought else text
