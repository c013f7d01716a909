"""OpenAI's Responses API: converts requests to Chat Completions, and writes answers whole or as a stream of events."""

import time
from typing import Any

from agentgym.core.outcome import Finish
from agentgym.gateway.choices import Answer, Choice
from agentgym.gateway.fields import call, entries, function, refuse, schema_form, string, table, text
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.replies import event
from agentgym.gateway.requests import GenerationRequest, Refusal
from agentgym.gateway.sessions import Session
from agentgym.gateway.telling import Piece
from agentgym.gateway.tools import Message, openai_calls

_SAME = ("model", "stream", "temperature", "top_p", "tool_choice", "parallel_tool_calls", "seed", "chat_template_kwargs")
_UNREAD = {
    "background": "an answer is waited for",
    "conversation": "continue a conversation with previous_response_id, or send it whole",
    "prompt": "prompt templates are stored by OpenAI alone",
    "max_tool_calls": "the gateway calls no tools itself",
    "top_logprobs": "only the sampled token's log-probability is known",
}
_INCLUDED = "reasoning.encrypted_content"  # of replies without reasoning items there is none, as with any such model
_TEXTS = ("input_text", "output_text", "text")


def read(raw: dict[str, object], session: Session) -> dict[str, object]:
    """Convert a Responses request to a Chat Completions request.

    Raises:
        Refusal: the request uses a feature that Chat Completions lacks.
    """
    refuse(raw, _UNREAD)
    if raw.get("truncation") not in (None, "disabled"):
        raise Refusal(400, "truncation must be disabled: nothing is left out of a prompt", None, "truncation")
    if [name for name in entries(raw.get("include") or [], "include") if name != _INCLUDED]:
        raise Refusal(400, f"include: of what may be included, only {_INCLUDED} asks for nothing here", None, "include")
    chat: dict[str, object] = {name: raw[name] for name in _SAME if raw.get(name) is not None}
    chat["max_completion_tokens"] = raw.get("max_output_tokens")
    chat["reasoning_effort"] = table(raw.get("reasoning") or {}, "reasoning").get("effort")
    form = table(raw.get("text") or {}, "text")
    chat |= {"response_format": schema_form(form.get("format")), "verbosity": form.get("verbosity")}
    chat["tools"] = [_tool(entry, place) for place, entry in enumerate(entries(raw.get("tools") or [], "tools"))]
    if not isinstance(raw.get("tool_choice") or "auto", str):
        tool_choice = table(raw["tool_choice"], "tool_choice")
        name = tool_choice.get("name") if tool_choice.get("type") == "function" else None
        chat["tool_choice"] = {"type": "function", "function": {"name": name}}
    chat["messages"] = [*_instructions(raw), *_previous(raw, session), *_input(raw.get("input"))]
    return chat


def _instructions(raw: dict[str, object]) -> list[dict[str, object]]:
    if not raw.get("instructions"):
        return []
    return [{"role": "system", "content": string(raw, "instructions", "request")}]


def _previous(raw: dict[str, object], session: Session) -> list[dict[str, object]]:
    """Return the messages of the conversation that a request continues (`previous_response_id`).

    Raises:
        Refusal: the session has no response with that id.
    """
    name = "previous_response_id"
    if raw.get(name) is None:
        return []
    id = string(raw, name, "request")
    messages = session.conversation(id)
    if messages is None:
        raise Refusal(400, f"Previous response with id '{id[:80]}' not found.", "previous_response_not_found", name)
    return [_as_sent(message) for message in messages]


def _as_sent(message: Message) -> dict[str, object]:
    sent = {key: value for key, value in message.items() if key != "calls"}
    return {**sent, "tool_calls": openai_calls(message["calls"])} if "calls" in message else sent


def _input(raw: object) -> list[dict[str, object]]:
    """Convert input items to messages; the items of one reply (text and tool calls) become one message.

    Raises:
        Refusal: an item has an unknown type.
    """
    if isinstance(raw, str):
        return [{"role": "user", "content": raw}]
    messages: list[dict[str, Any]] = []
    for place, entry in enumerate(entries(raw, "input")):
        name = f"input[{place}]"
        item = table(entry, name)
        kind = item.get("type", "message")
        reply = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
        if kind == "message":
            messages.append({"role": string(item, "role", name), "content": text(item.get("content"), name, _TEXTS)})
        elif kind == "function_call":
            if reply is None:
                messages.append(reply := {"role": "assistant", "content": ""})
            tool_call = call(string(item, "call_id", name), string(item, "name", name), string(item, "arguments", name))
            reply.setdefault("tool_calls", []).append(tool_call)
        elif kind == "function_call_output":
            result = text(item.get("output"), f"{name}.output", _TEXTS)
            messages.append({"role": "tool", "tool_call_id": string(item, "call_id", name), "content": result})
        elif kind != "reasoning":  # a thought of another model: ours are text
            raise Refusal(400, f"{name} is of type {str(kind)[:40]!r}; messages and calls of functions are read", None, name)
    return messages


def _tool(raw: object, place: int) -> dict[str, object]:
    tool = table(raw, f"tools[{place}]")
    if tool.get("type") != "function":
        why = (
            f"tools[{place}] is of type {str(tool.get('type'))[:40]!r}, which OpenAI runs itself: only functions are offered"
        )
        raise Refusal(400, why, "unsupported_parameter", "tools")
    return function(tool.get("name"), tool.get("description"), tool.get("parameters"))


def error(refusal: Refusal) -> dict[str, object]:
    """Return an error as OpenAI's JSON."""
    return refusal.body()


class ResponseWriter:
    """Writes the answer to one request in the format of OpenAI's Responses API."""

    def __init__(self, gateway: Gateway, request: GenerationRequest, raw: dict[str, object], id: str) -> None:
        self._id, self._number, self._begun, self._open = id, 0, False, False
        echoed = ("instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p", "user")
        self._body: dict[str, object] = {
            "id": id,
            "object": "response",
            "created_at": int(time.time()),
            "model": gateway.name,
            **{name: raw.get(name) for name in echoed},
            "metadata": raw.get("metadata") or {},
            "parallel_tool_calls": not request.one_call,
            "reasoning": {"effort": None, "summary": None},
            "store": raw.get("store") is not False,
            "text": raw.get("text") or {"format": {"type": "text"}},
            "tool_choice": raw.get("tool_choice") or "auto",
            "tools": raw.get("tools") or [],
            "truncation": "disabled",
            "background": False,
            "error": None,
        }

    def whole(self, answer: Answer) -> dict[str, object]:
        """Return the whole answer as one JSON object."""
        choice = answer.choices[0]
        output = [self._message(choice.text)] if choice.text or not choice.calls else []
        output += [self._call(place, tool_call, tool_call["arguments"]) for place, tool_call in enumerate(choice.calls)]
        return self._state(_status(choice), output, answer)

    def began(self, prompt: list[int]) -> bytes:
        """Return the first events of a stream."""
        self._begun = True
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._event(kind, response=self._state("in_progress", [])) for kind in kinds)

    def piece(self, piece: Piece) -> bytes:
        """Return the events for a new piece of text."""
        start = b""
        if not self._open:
            self._open = True
            message: dict[str, object] = {**self._message(""), "status": "in_progress", "content": []}
            start = self._event("response.output_item.added", output_index=0, item=message)
            start += self._event("response.content_part.added", **self._place(), part=_part(""))
        return start + self._event("response.output_text.delta", **self._place(), delta=piece.text, logprobs=[])

    def end(self, answer: Answer) -> bytes:
        """Return the last events: text that was withheld, tool calls, and the complete response."""
        choice = answer.choices[0]
        events = [] if self._begun else [self.began(answer.prompt_ids)]
        if choice.rest[0] or not (self._open or choice.calls):
            events.append(self.piece(Piece(0, *choice.rest)))
        if self._open:
            text = choice.text
            events.append(self._event("response.output_text.done", **self._place(), text=text, logprobs=[]))
            events.append(self._event("response.content_part.done", **self._place(), part=_part(text)))
            events.append(self._event("response.output_item.done", output_index=0, item=self._message(text)))
        for place, tool_call in enumerate(choice.calls):
            at = {"output_index": place + int(self._open)}
            item, kind = self._call(place, tool_call, tool_call["arguments"]), "response.function_call_arguments"
            begun, more = {**item, "arguments": "", "status": "in_progress"}, {**at, "item_id": item["id"]}
            events.append(self._event("response.output_item.added", **at, item=begun))
            events.append(self._event(f"{kind}.delta", **more, delta=tool_call["arguments"]))
            events.append(self._event(f"{kind}.done", **more, name=tool_call["name"], arguments=tool_call["arguments"]))
            events.append(self._event("response.output_item.done", **at, item=item))
        status = _status(choice)
        return b"".join([*events, self._event(f"response.{status}", response=self.whole(answer))])

    def failed(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error after the stream has begun."""
        return self._event("error", code=refusal.code, message=str(refusal), param=refusal.param)

    def _state(self, status: str, output: list[dict[str, object]], answer: Answer | None = None) -> dict[str, object]:
        usage = None
        if answer is not None:
            usage = {
                "input_tokens": len(answer.prompt_ids),
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": answer.sampled,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": len(answer.prompt_ids) + answer.sampled,
            }
        why = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {**self._body, "status": status, "output": output, "usage": usage, "incomplete_details": why}

    def _message(self, text: str) -> dict[str, object]:
        item = {"id": f"msg_{self._id}", "type": "message", "role": "assistant", "status": "completed"}
        return {**item, "content": [_part(text)]}

    def _call(self, place: int, tool_call: dict[str, str], arguments: str) -> dict[str, object]:
        item = {"id": f"fc_{self._id}_{place}", "type": "function_call", "status": "completed"}
        return {**item, "call_id": tool_call["id"], "name": tool_call["name"], "arguments": arguments}

    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number - 1, **fields}, kind)


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _status(choice: Choice) -> str:
    return "incomplete" if choice.completion.finish == Finish.LENGTH else "completed"
