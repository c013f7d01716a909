"""Anthropic's Messages API through its own package: `tool_use`, signed thinking, prompt caching."""

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qsl

import httpx2

from agentgym.core.json_value import JSON, Object, table
from agentgym.core.screen import storable
from agentgym.engines.openai.answers import MOST_CALLS
from agentgym.engines.openai.chat import OpenAIChatEngine
from agentgym.engines.openai.client import received
from agentgym.engines.openai.http import Garbage, Servers, check_error, seconds_of
from agentgym.engines.openai.traffic import Server
from agentgym.engines.protocol import Completion, Sampling, ToolCall
from agentgym.episodes.usage import Usage, count
from agentgym.errors import MissingExtra, how_to_install

BLOCKS = "blocks"
"""Message key for the content blocks that the API expects back verbatim."""
_ENDED = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}
_EMPTY = "(nothing)"  # replaces an empty text, which the API refuses


class MessagesServers(Servers):
    """Servers of the Messages API, called through the package's own client, with its retries disabled."""

    def __init__(self, urls: Sequence[str], **options: Any) -> None:
        super().__init__(urls, **options)
        try:
            self._package = importlib.import_module("anthropic")
        except ImportError as error:
            raise MissingExtra(f"chat:anthropic/NAME needs {error.name}: {how_to_install('anthropic')}") from error

    async def _send(
        self, client: httpx2.AsyncClient, server: Server, path: str, body: dict[str, object], session: str, most: int
    ) -> tuple[int, float, bytes, bool]:
        anthropic = self._package
        api = anthropic.AsyncAnthropic(
            api_key=self._key,
            base_url=server.url,
            max_retries=0,
            timeout=self._timeout,
            http_client=client,
            default_headers=self._own,
            default_query=dict(parse_qsl(server.query.removeprefix("?"))),
        )
        fields = cast("dict[str, Any]", dict(body))
        fixed = {name: fields.pop(name) for name in ("model", "messages", "max_tokens")}
        try:
            async with api.messages.with_streaming_response.create(**fixed, extra_body=fields) as answer:
                content, whole = await received(answer.iter_bytes(), most)
                return answer.status_code, 0.0, self.hidden(content), whole
        except anthropic.APIStatusError as error:
            refusal = error.response
            return refusal.status_code, seconds_of(refusal.headers.get("retry-after")), self.hidden(refusal.content), True
        except anthropic.APITimeoutError:
            raise TimeoutError from None
        except anthropic.APIConnectionError as error:
            cause = error.__cause__
            raise cause if isinstance(cause, httpx2.RequestError) else httpx2.ReadError(str(error)) from None


class AnthropicEngine(OpenAIChatEngine):
    """A model of Anthropic's API, named `anthropic/NAME`, with the options and errors of `OpenAIChatEngine`.

    The environment variable ANTHROPIC_API_KEY contains the key; ANTHROPIC_BASE_URL overrides the address. The option
    `body={"thinking": …}` turns on thinking. Every request enables prompt caching.
    """

    kind = MessagesServers

    def request(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling
    ) -> dict[str, object]:
        """Return the request body. It has no seed, because the API does not accept one."""
        system = "\n\n".join(str(message["content"]) for message in messages if message["role"] == "system")
        others = [message for message in messages if message["role"] != "system"]
        body: dict[str, object] = {"model": self.model, "messages": turns(others), "max_tokens": sampling.max_tokens}
        if system.strip():
            body["system"] = system
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        settings: dict[str, object] = {"temperature": sampling.temperature, "cache_control": {"type": "ephemeral"}}
        return {**body, **{name: value for name, value in settings.items() if name not in self._left_out}, **self.body}

    def read(self, answer: Object) -> Completion:
        """Return the completion in an answer of the API.

        Raises:
            Garbage: the answer is an error or not a valid reply.
        """
        blocks, stopped = answer.get("content"), answer.get("stop_reason")
        if not isinstance(stopped, str) or stopped not in _ENDED:
            check_error(answer)
            raise Garbage(f"stop_reason is {str(stopped)[:40]!r}; expected one of {', '.join(_ENDED)}")
        if not isinstance(blocks, list):
            raise Garbage(f"content is {str(blocks)[:40]!r}; expected blocks")
        parts = [table(block) for block in blocks]
        calls = [_call(part) for part in parts if part.get("type") == "tool_use"][:MOST_CALLS]
        done = Completion([], [], _ENDED[stopped], text=_text(parts, "text"), calls=calls)
        done.reasoning = _text(parts, "thinking")
        if any(part.get("type") in ("thinking", "redacted_thinking") for part in parts):
            done.echo = {BLOCKS: parts}
        return replace(done, usage=_usage(answer.get("usage")))


def turns(messages: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Convert messages from OpenAI's format to Anthropic's.

    Tool results become part of user messages, and consecutive messages of one role are merged.
    """
    converted: list[dict[str, object]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _reply(message) if role == "assistant" else _answer(message)
        if converted and converted[-1]["role"] == role:
            cast("list[object]", converted[-1]["content"]).extend(blocks)
        else:
            converted.append({"role": role, "content": blocks})
    return converted


def _answer(message: Mapping[str, object]) -> list[dict[str, object]]:
    text = str(message["content"])
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]
    return [{"type": "text", "text": text if text.strip() else _EMPTY}]


def _reply(message: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the content blocks of an assistant message.

    If the ids of tool calls in the stored blocks equal those of the message, return the stored blocks without empty
    texts, and add the message's text if only thinking is left. Otherwise build blocks from the text and calls of the
    message.
    """
    calls = [table(call) for call in cast("list[JSON]", message.get("tool_calls") or [])]
    stored = [cast("dict[str, object]", block) for block in cast("list[object]", message.get(BLOCKS) or [])]
    if stored and [block.get("id") for block in stored if block.get("type") == "tool_use"] == [call["id"] for call in calls]:
        converted = [block for block in stored if block.get("type") != "text" or str(block.get("text")).strip()]
        silent = all(block.get("type") not in ("text", "tool_use") for block in converted)
        return [*converted, {"type": "text", "text": str(message["content"])}] if silent else converted
    text = str(message.get("content") or "")
    blocks: list[dict[str, object]] = [{"type": "text", "text": text}] if text.strip() else []
    for call in calls:
        function = table(call["function"])
        called = {"id": call["id"], "name": function["name"], "input": json.loads(str(function["arguments"]))}
        blocks.append({"type": "tool_use", **called})
    return blocks or [{"type": "text", "text": _EMPTY}]


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    function = table(cast("JSON", tool["function"]))
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def _call(block: Object) -> ToolCall:
    name, id = block.get("name"), block.get("id")
    if not isinstance(name, str):
        raise Garbage("expected tool_use with a name")
    arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
    return ToolCall(storable(id) if isinstance(id, str) else "", storable(name), storable(arguments))


def _text(blocks: Sequence[Object], kind: str) -> str:
    texts = [text for block in blocks if block.get("type") == kind and isinstance(text := block.get(kind), str)]
    return storable("".join(texts))


def _usage(raw: JSON) -> Usage | None:
    counts = table(raw)
    fresh, output = count(counts.get("input_tokens")), count(counts.get("output_tokens"))
    cached, written = (count(counts.get(name) or 0) for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    if fresh is None or output is None or cached is None or written is None:
        return None
    thinking = min(output, count(table(counts.get("output_tokens_details")).get("thinking_tokens")) or 0)
    return Usage(fresh + cached + written, output, cached, written, thinking)
