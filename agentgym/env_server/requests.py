"""Clients' requests: JSON within bounds, and actions in any of the formats that other projects' clients send."""

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from typing import cast

from agentgym.core.actions import Tool
from agentgym.core.env import MAX_ACTION
from agentgym.serving.asgi import Refusal
from agentgym.serving.server import named_here, other_name

_TEXT = ("text", "message", "action")
"""Fields that may contain a whole action: `text` is ours, `message` is that of OpenEnv's echo environment."""


def authorize(token: str | None, headers: Mapping[str, str]) -> None:
    """Check the token of a request; without a configured token, refuse requests from web pages.

    A web page is recognized by an Origin header, or by a Host header that does not name this machine.

    Raises:
        Refusal: the token is missing or wrong, or the request comes from a web page.
    """
    if token is None:
        if "origin" in headers:
            raise Refusal(403, "web pages may use this server only with a token: start it with one", "UNAUTHORIZED")
        if not named_here(headers):
            raise Refusal(403, f"without a token {other_name(headers)}: start it with one", "UNAUTHORIZED")
        return
    kind, _, token_sent = headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            token_sent = base64.b64decode(token_sent, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            token_sent = ""
    if not hmac.compare_digest(token_sent.strip().encode(), token.encode()):
        raise Refusal(401, "the token is missing or wrong: send Authorization: Bearer TOKEN", "UNAUTHORIZED")


def parsed(content: bytes | str) -> dict[str, object]:
    """Parse a JSON object.

    Raises:
        Refusal: the content is not a JSON object.
    """
    try:
        raw = json.loads(content or "{}")
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"invalid JSON: {str(error)[:100]}", "INVALID_JSON") from None
    if not isinstance(raw, dict):
        raise Refusal(400, f"the JSON is {str(cast('object', raw))[:40]}; expected an object", "INVALID_JSON")
    return cast("dict[str, object]", raw)


def action_of(action: object, tools: Mapping[str, Tool]) -> str:
    """Return an action as text; it may be a string, an object with `text`, or a tool call.

    A tool call is `{"name": …, "arguments": {…}}`, or OpenEnv's `{"type": "call_tool", "tool_name": …, "arguments": {…}}`.

    Raises:
        Refusal: the action has another format.
    """
    if isinstance(action, str):
        return _bounded(action)
    fields: dict[str, object] = {}
    if isinstance(action, dict):
        action_fields = cast("dict[object, object]", action)
        if len(action_fields) == 1 and isinstance(plain := action_fields.get("text"), str):  # like most actions
            return _bounded(plain)
        fields = {str(name): value for name, value in action_fields.items() if name != "metadata"}
    name = fields.pop("tool_name", None) if fields.pop("type", None) == "call_tool" else fields.get("name")
    if isinstance(name, str) and fields.keys() <= {"name", "arguments"}:
        arguments: object = fields.get("arguments") or {}
        return _bounded(json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False))
    if len(fields) == 1 and next(iter(fields)) in _TEXT and isinstance(text := next(iter(fields.values())), str):
        return _bounded(text)
    call = ', or {"name": TOOL, "arguments": {…}}' if tools else ""
    raise Refusal(
        422, f'the action is {str(cast("object", action))[:60]}; expected {{"text": "…"}}{call}', "VALIDATION_ERROR"
    )


def _bounded(text: str) -> str:
    if len(text) > MAX_ACTION:
        raise Refusal(413, f"the action has {len(text)} characters; at most {MAX_ACTION} are read", "VALIDATION_ERROR")
    return text


def schema(tools: Mapping[str, Tool]) -> dict[str, object]:
    """Return the JSON schemas of actions, observations and states."""
    text = {"type": "object", "properties": {"text": {"type": "string", "maxLength": MAX_ACTION}}, "required": ["text"]}
    calls = [
        {
            "type": "object",
            "description": tool.description,
            "properties": {"name": {"const": tool.name}, "arguments": dict(tool.parameters)},
            "required": ["name"],
        }
        for tool in tools.values()
    ]
    kinds = {"text": "string", "terminated": "boolean", "truncated": "boolean", "info": "object", "tools": "array"}
    state = {"episode_id": ["string", "null"], "step_count": "integer", "horizon": "integer", "running": "boolean"}
    return {
        "action": {"anyOf": [text, *calls]} if calls else text,
        "observation": {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}},
        "state": {"type": "object", "properties": {name: {"type": kind} for name, kind in state.items()}},
    }
