"""Answers in the form of the OpenAI API, whole or as a stream's events."""

import json
import time
from collections.abc import Iterator

from agentgym.gateway.gateway import Answer, Gateway
from agentgym.gateway.requests import Asked
from agentgym.gateway.tools import shown


def whole(gateway: Gateway, asked: Asked, answer: Answer, id: str) -> dict[str, object]:
    """Return one JSON object; ids and `policy_version` stand where vLLM's server puts ids."""
    choice: dict[str, object] = {"index": 0, "finish_reason": _finish(answer), "stop_reason": None}
    choice["logprobs"] = _logprobs(gateway, asked, answer)
    if asked.chat:
        choice["message"] = _message(answer)
    else:
        choice["text"] = answer.text
    if asked.token_ids:
        choice["token_ids"] = answer.completion.ids
    body = _head(gateway, asked, answer, id)
    if asked.token_ids:
        (body if asked.chat else choice)["prompt_token_ids"] = answer.prompt_ids
    if answer.prompt_logprobs is not None:
        pairs = zip(answer.prompt_ids[1:], answer.prompt_logprobs, strict=True)
        choice["prompt_logprobs"] = [None, *({str(token): {"logprob": value}} for token, value in pairs)]
        body["prompt_logprobs_temperature"] = asked.prompt_temperature
    return {**body, "choices": [choice], "usage": usage(answer)}


def events(gateway: Gateway, asked: Asked, answer: Answer, id: str) -> Iterator[bytes]:
    """Yield a stream's events. The text comes in one piece: an engine returns completions."""
    head = _head(gateway, asked, answer, id)
    head["object"] = "chat.completion.chunk" if asked.chat else "text_completion"
    part: dict[str, object] = {"index": 0, "logprobs": _logprobs(gateway, asked, answer), "finish_reason": None}
    if asked.token_ids:
        part["token_ids"] = answer.completion.ids
        (head if asked.chat else part)["prompt_token_ids"] = answer.prompt_ids
    end: dict[str, object] = {"index": 0, "logprobs": None, "finish_reason": _finish(answer)}
    if asked.chat:
        part["delta"], end["delta"] = _message(answer, stream=True), {}
    else:
        part["text"], end["text"] = answer.text, ""
    yield event({**head, "choices": [part]})
    head.pop("prompt_token_ids", None)
    yield event({**head, "choices": [end]})
    if asked.usage:
        yield event({**head, "choices": [], "usage": usage(answer)})
    yield b"data: [DONE]\n\n"


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls and answer.completion.finish == "stop" else answer.completion.finish


def _message(answer: Answer, *, stream: bool = False) -> dict[str, object]:
    if not answer.calls:
        return {"role": "assistant", "content": answer.text}
    return {"role": "assistant", "content": answer.text or None, "tool_calls": shown(answer.calls, stream=stream)}


def event(body: dict[str, object]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def usage(answer: Answer) -> dict[str, int]:
    """Return the token counts."""
    asked, completed = len(answer.prompt_ids), len(answer.completion.ids)
    return {"prompt_tokens": asked, "completion_tokens": completed, "total_tokens": asked + completed}


def _head(gateway: Gateway, asked: Asked, answer: Answer, id: str) -> dict[str, object]:
    return {
        "id": id,
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": int(time.time()),
        "model": gateway.name,
        "policy_version": answer.completion.policy_version,
    }


def _logprobs(gateway: Gateway, asked: Asked, answer: Answer) -> dict[str, object] | None:
    if not asked.logprobs:
        return None
    texts = [gateway.template.encoder.decode([id]) for id in answer.completion.ids]
    values = answer.completion.logprobs
    if not asked.chat:
        offsets = [0]
        for text in texts:
            offsets.append(offsets[-1] + len(text))
        return {"tokens": texts, "token_logprobs": values, "text_offset": offsets[:-1], "top_logprobs": None}
    pairs = zip(texts, values, strict=True)
    return {"content": [{"token": t, "logprob": v, "bytes": list(t.encode()), "top_logprobs": []} for t, v in pairs]}
