"""Anthropic's Messages API: converts requests to Chat Completions, and writes answers whole or as a stream of events."""

import json
from collections.abc import Mapping
from typing import Any

from agentgym.gateway.choices import Answer, Choice
from agentgym.gateway.fields import call, entries, function, refuse, schema_form, string, table, text
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.replies import event
from agentgym.gateway.requests import GenerationRequest, Refusal
from agentgym.gateway.sessions import Session
from agentgym.gateway.telling import Piece

_SAME = ("model", "stream", "max_tokens", "temperature", "top_p", "top_k", "seed", "chat_template_kwargs")
_UNREAD = {
    "mcp_servers": "the gateway calls no tools itself",
    "container": "the gateway runs nothing",
}
_ERRORS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
_THOUGHTS = ("thinking", "redacted_thinking")


def read(raw: dict[str, object], session: Session) -> dict[str, object]:
    """Convert a Messages request to a Chat Completions request.

    Raises:
        Refusal: the request uses a feature that Chat Completions lacks.
    """
    if raw.get("max_tokens") is None:
        raise Refusal(400, "max_tokens: Field required", None, "max_tokens")
    refuse(raw, _UNREAD)
    config = table(raw.get("output_config") or {}, "output_config")
    if table(raw.get("thinking") or {}, "thinking").get("type") == "enabled":
        raise Refusal(400, "thinking: the model thinks as its own template has it, without a budget", None, "thinking")
    edits = entries(table(raw.get("context_management") or {}, "context_management").get("edits") or [], "edits")
    if any(not str(table(edit, "edits").get("type")).startswith("clear_thinking") for edit in edits):
        raise Refusal(400, "context_management: a prompt always includes all messages", None, "context_management")
    chat: dict[str, object] = {name: raw[name] for name in _SAME if raw.get(name) is not None}
    system = text(raw.get("system") or "", "system", ("text",))
    chat["messages"] = [*([{"role": "system", "content": system}] if system else []), *_messages(raw.get("messages"))]
    chat["tools"] = [_tool(entry, place) for place, entry in enumerate(entries(raw.get("tools") or [], "tools"))]
    chat["stop"] = raw.get("stop_sequences")
    chat["response_format"] = schema_form(config.get("format") or raw.get("output_format"))  # the second: of its beta
    return chat | _tool_choice(table(raw.get("tool_choice") or {"type": "auto"}, "tool_choice"))


def read_for_count(raw: dict[str, object], session: Session) -> dict[str, object]:
    """Convert a count-tokens request to a Chat Completions request."""
    return read({**raw, "max_tokens": 1, "stream": False}, session)


def _messages(raw: object) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = []
    for place, entry in enumerate(entries(raw, "messages")):
        name = f"messages[{place}]"
        message = table(entry, name)
        role, content = string(message, "role", name), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise Refusal(400, f"{name}.role must be user or assistant", None, name)
        blocks: list[object] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else entries(content, f"{name}.content")
        )
        parts = [table(block, f"{name}.content[{n}]") for n, block in enumerate(blocks)]
        messages += [_assistant_message(parts, name)] if role == "assistant" else _heard(role, parts, name)
    return messages


def _assistant_message(parts: list[dict[str, object]], name: str) -> dict[str, object]:
    """Convert an assistant's message; thinking blocks are dropped."""
    calls = [part for part in parts if part.get("type") == "tool_use"]
    texts = [part for part in parts if part.get("type") not in ("tool_use", *_THOUGHTS)]
    message: dict[str, object] = {"role": "assistant", "content": text(texts, f"{name}.content", ("text",))}
    if calls:
        message["tool_calls"] = [
            call(string(part, "id", name), string(part, "name", name), _dumped(table(part.get("input"), f"{name}.input")))
            for part in calls
        ]
    return message


def _heard(role: str, parts: list[dict[str, object]], name: str) -> list[dict[str, object]]:
    """Convert a client's message to one message per tool result, and one for the text after them.

    Raises:
        Refusal: text comes before a tool result.
    """
    messages: list[dict[str, object]] = []
    texts: list[object] = []
    for part in parts:
        if part.get("type") != "tool_result":
            texts.append(part)
            continue
        if texts:
            raise Refusal(400, f"{name}.content: tool_result blocks must come before text", None, name)
        result = text(part.get("content") or "", f"{name}.content", ("text",))
        messages.append({"role": "tool", "tool_call_id": string(part, "tool_use_id", name), "content": result})
    if texts or not messages:
        messages.append({"role": role, "content": text(texts, f"{name}.content", ("text",))})
    return messages


def _tool(raw: object, place: int) -> dict[str, object]:
    tool = table(raw, f"tools[{place}]")
    if tool.get("type") not in (None, "custom"):
        why = f"tools[{place}] is of type {str(tool['type'])[:40]!r}, which is Anthropic's own: tools need an input_schema"
        raise Refusal(400, why, None, "tools")
    return function(
        tool.get("name"), tool.get("description"), table(tool.get("input_schema"), f"tools[{place}].input_schema")
    )


def _tool_choice(raw: dict[str, object]) -> dict[str, object]:
    choices: dict[str, object] = {"auto": "auto", "none": "none", "any": "required"}
    choices["tool"] = {"type": "function", "function": {"name": raw.get("name")}}
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in choices:
        raise Refusal(400, "tool_choice.type must be auto, any, tool or none", None, "tool_choice")
    return {"tool_choice": choices[kind], "parallel_tool_calls": raw.get("disable_parallel_tool_use") is not True}


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def error(refusal: Refusal) -> dict[str, object]:
    """Return an error as Anthropic's JSON."""
    kind = _ERRORS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": str(refusal)}, "request_id": None}


class MessageWriter:
    """Writes the answer to one request in the format of Anthropic's Messages API."""

    def __init__(self, gateway: Gateway, request: GenerationRequest, raw: dict[str, object], id: str) -> None:
        self._gateway, self._id = gateway, id
        self._begun = False
        self._blocks = 0
        self._open = False

    def whole(self, answer: Answer) -> dict[str, object]:
        """Return the whole answer as one JSON object."""
        choice = answer.choices[0]
        content: list[dict[str, object]] = [{"type": "text", "text": choice.text}] if choice.text else []
        content += [_block(tool_call, json.loads(tool_call["arguments"])) for tool_call in choice.calls]
        usage = {"input_tokens": len(answer.prompt_ids), "output_tokens": answer.sampled}
        return {**self._head(), **_end(choice), "content": content, "usage": usage}

    def began(self, prompt: list[int]) -> bytes:
        """Return the first events of a stream."""
        self._begun = True
        usage = {"input_tokens": len(prompt), "output_tokens": 0}
        message: dict[str, object] = {
            **self._head(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event("message_start", message=message)

    def piece(self, piece: Piece) -> bytes:
        """Return the event for a new piece of text."""
        start = b"" if self._open else _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        self._open = True
        return start + _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece.text})

    def end(self, answer: Answer) -> bytes:
        """Return the last events: text that was withheld, tool calls, and the reason why the reply ended."""
        choice = answer.choices[0]
        events = [] if self._begun else [self.began(answer.prompt_ids)]
        if choice.rest[0]:
            events.append(self.piece(Piece(0, *choice.rest)))
        if self._open:
            events.append(_event("content_block_stop", index=0))
        for index, tool_call in enumerate(choice.calls, int(self._open)):
            delta = {"type": "input_json_delta", "partial_json": tool_call["arguments"]}
            events.append(_event("content_block_start", index=index, content_block=_block(tool_call, {})))
            events.append(_event("content_block_delta", index=index, delta=delta))
            events.append(_event("content_block_stop", index=index))
        usage = {"input_tokens": len(answer.prompt_ids), "output_tokens": answer.sampled}
        events.append(_event("message_delta", delta=_end(choice), usage=usage))
        return b"".join([*events, _event("message_stop")])

    def failed(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error after the stream has begun."""
        return event(error(refusal), "error")

    def _head(self) -> dict[str, object]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._gateway.name}


def _block(tool_call: Mapping[str, str], arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": tool_call["id"], "name": tool_call["name"], "input": arguments}


def _end(choice: Choice) -> dict[str, object]:
    reasons = {"length": "max_tokens", "tool_calls": "tool_use"}
    reason = "stop_sequence" if choice.stopped and not choice.calls else reasons.get(choice.finish, "end_turn")
    return {"stop_reason": reason, "stop_sequence": choice.stopped}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)
