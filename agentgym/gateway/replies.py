"""Answers in the format of OpenAI's Chat Completions and Completions, whole or as a stream of events."""

import json
import time
from collections.abc import Sequence
from typing import Any

from agentgym.gateway.choices import Answer, Choice
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.requests import GenerationRequest, Refusal
from agentgym.gateway.telling import Piece
from agentgym.gateway.tools import openai_calls


class ChatWriter:
    """Writes the answer to one request, with token ids in vLLM's fields and an additional top-level `policy_version`."""

    def __init__(self, gateway: Gateway, request: GenerationRequest, raw: dict[str, object], id: str) -> None:
        self._gateway, self._request, self._id = gateway, request, id
        self._prompt: list[int] | None = None

    def whole(self, answer: Answer) -> dict[str, object]:
        """Return the whole answer as one JSON object."""
        request, body = self._request, self._head(answer.choices[0].completion.policy_version)
        choices: list[dict[str, object]] = []
        for index, choice in enumerate(answer.choices):
            part = self._part(index, choice.completion.ids, choice.completion.logprobs)
            part |= {"finish_reason": choice.finish, "stop_reason": choice.stopped}
            part |= {"message": _message(choice)} if request.chat else {"text": choice.text}
            if request.token_ids:
                (body if request.chat else part)["prompt_token_ids"] = answer.prompt_ids
            choices.append(part)
        if answer.prompt_logprobs is not None:
            pairs = zip(answer.prompt_ids[1:], answer.prompt_logprobs, strict=True)
            choices[0]["prompt_logprobs"] = [None, *({str(token): {"logprob": value}} for token, value in pairs)]
            body["prompt_logprobs_temperature"] = request.prompt_temperature
        return {**body, "choices": choices, "usage": _usage(answer)}

    def began(self, prompt: list[int]) -> bytes:
        """Return the first event of a stream: the role, and the prompt's tokens if requested."""
        self._prompt = prompt
        roles = [{"index": n, "logprobs": None, "finish_reason": None} for n in range(self._request.n)]
        if not self._request.chat:
            return b""
        ids: dict[str, Any] = {"prompt_token_ids": prompt} if self._request.token_ids else {}
        delta = {"role": "assistant", "content": ""}
        return b"".join(self._chunk([{**role, "delta": delta}], **ids) for role in roles)

    def piece(self, piece: Piece) -> bytes:
        """Return the event for a new piece of text."""
        part = self._part(piece.index, piece.ids, piece.logprobs) | {"finish_reason": None}
        if self._request.chat:
            return self._chunk([{**part, "delta": {"content": piece.text}}])
        if self._request.token_ids and self._prompt is not None:
            part["prompt_token_ids"] = self._prompt
        return self._chunk([{**part, "text": piece.text}])

    def end(self, answer: Answer) -> bytes:
        """Return the last events: text that was withheld, tool calls, finish reasons and token counts."""
        events: list[bytes] = [] if self._prompt is not None else [self.began(answer.prompt_ids)]
        for index, choice in enumerate(answer.choices):
            text, ids, logprobs = choice.rest
            if text or ids:
                events.append(self.piece(Piece(index, text, ids, logprobs)))
            events += [self._chunk([{"index": index, **_NONE, "delta": {"tool_calls": [c]}}]) for c in _deltas(choice)]
            part: dict[str, object] = {"index": index, **_NONE, "finish_reason": choice.finish}
            part |= {"stop_reason": choice.stopped} | ({"delta": {}} if self._request.chat else {"text": ""})
            events.append(self._chunk([part], answer.choices[0].completion.policy_version))
        if self._request.usage:
            events.append(self._chunk([], usage=_usage(answer)))
        return b"".join([*events, b"data: [DONE]\n\n"])

    def failed(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error after the stream has begun."""
        return event(refusal.body())

    def _chunk(self, choices: Sequence[dict[str, Any]], version: int | None = None, **more: object) -> bytes:
        version = self._gateway.engine.policy_version if version is None else version
        kind = "chat.completion.chunk" if self._request.chat else "text_completion"
        return event({**self._head(version), "object": kind, "choices": list(choices), **more})

    def _head(self, version: int) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "chat.completion" if self._request.chat else "text_completion",
            "created": int(time.time()),
            "model": self._gateway.name,
            "policy_version": version,
        }

    def _part(self, index: int, ids: Sequence[int], logprobs: Sequence[float]) -> dict[str, object]:
        part: dict[str, object] = {"index": index, "logprobs": self._logprobs(ids, logprobs)}
        return {**part, "token_ids": list(ids)} if self._request.token_ids else part

    def _logprobs(self, ids: Sequence[int], values: Sequence[float]) -> dict[str, object] | None:
        if not self._request.logprobs:
            return None
        texts = [self._gateway.template.encoder.decode([id]) for id in ids]
        if not self._request.chat:
            offsets = [0]
            for text in texts:
                offsets.append(offsets[-1] + len(text))
            return {"tokens": texts, "token_logprobs": list(values), "text_offset": offsets[:-1], "top_logprobs": None}
        pairs = zip(texts, values, strict=True)
        return {"content": [{"token": t, "logprob": v, "bytes": list(t.encode()), "top_logprobs": []} for t, v in pairs]}


_NONE: dict[str, object] = {"logprobs": None, "finish_reason": None}


def _message(choice: Choice) -> dict[str, object]:
    if not choice.calls:
        return {"role": "assistant", "content": choice.text}
    return {"role": "assistant", "content": choice.text or None, "tool_calls": openai_calls(choice.calls)}


def _deltas(choice: Choice) -> list[dict[str, object]]:
    """Return tool calls as stream deltas: the name first, then the arguments."""
    deltas: list[dict[str, object]] = []
    for index, call in enumerate(openai_calls(choice.calls)):
        function: Any = call["function"]
        deltas.append({"index": index, **call, "function": {"name": function["name"], "arguments": ""}})
        deltas.append({"index": index, "function": {"arguments": function["arguments"]}})
    return deltas


def event(body: dict[str, object], name: str = "") -> bytes:
    """Return one server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(body).encode() + b"\n\n"


def _usage(answer: Answer) -> dict[str, int]:
    """Return the `usage` object: counts of prompt tokens, sampled tokens and both."""
    prompt_tokens, completed = len(answer.prompt_ids), answer.sampled
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completed, "total_tokens": prompt_tokens + completed}
