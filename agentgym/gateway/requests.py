"""Requests of the OpenAI API, parsed from untrusted JSON."""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, cast

from agentgym.core.actions import Tool
from agentgym.engines import Sampling
from agentgym.errors import BadConfig
from agentgym.gateway.forms import Form, read_form
from agentgym.gateway.rows import LARGEST_ID
from agentgym.gateway.tools import Message, check_results, read_calls, read_tools, refuse_constant

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_UNREAD = {  # what would change the reply and is not done here, with the value that asks for nothing
    "include_stop_str_in_output": "a stop string is never part of the text",
    "top_logprobs": "only the sampled token's log-probability is known (logprobs)",
    "functions": "functions are what tools were called once: use tools",
    "logit_bias": "logit_bias is not offered",
    "frequency_penalty": "frequency_penalty is not offered",
    "presence_penalty": "presence_penalty is not offered",
    "echo": "echo is not offered; prompt_logprobs gives the prompt's log-probabilities",
    "suffix": "suffix is not offered",
    **dict.fromkeys(
        ("min_tokens", "bad_words", "allowed_token_ids", "length_penalty", "use_beam_search", "truncate_prompt_tokens"),
        "this option of vLLM is not offered",
    ),
    **dict.fromkeys(
        ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"),
        "this option of vLLM is not offered: response_format asks for JSON",
    ),
    **dict.fromkeys(("chat_template", "documents"), "prompts are made by the model's own chat template"),
    "continue_final_message": "the last message is answered, never continued",
    **dict.fromkeys(("audio", "web_search_options", "verbosity"), "this option of OpenAI is not offered"),
    "reasoning_effort": "reasoning_effort is not offered: chat_template_kwargs has the options of the chat template",
}
_MOST_CHOICES = 128
_MOST_STOPS, _LONGEST_STOP = 16, 1000
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OWN = ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "tokenize", "strftime_now")
"""Variables of the chat template that clients must not set."""


class Refusal(Exception):
    """A request was refused; the error goes to the client in OpenAI's format."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def body(self) -> dict[str, object]:
        """Return the error as the JSON that OpenAI's clients expect."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(slots=True)
class GenerationRequest:
    """One validated request for a reply."""

    model: str
    chat: bool
    sampling: Sampling
    messages: list[Message] = field(default_factory=list[Message])
    """Messages of a chat request: role, content and, with tools, `calls` or `tool_call_id`."""
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    prompt: list[int] | str = ""
    """Prompt of a Completions request, as text or token ids; unused for chat."""
    seeded: bool = False
    """True if the client chose the seed."""
    stream: bool = False
    usage: bool = False
    """True if a stream should end with token counts."""
    logprobs: bool = False
    token_ids: bool = False
    prompt_logprobs: bool = False
    prompt_temperature: float = 1.0
    template_options: dict[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """Variables of the chat template, such as `enable_thinking`; for chat only."""
    ignore_eos: bool = False
    stops: tuple[str, ...] = ()
    """Strings that end a reply; the reply's text excludes the stop string, its sampled tokens include it."""
    n: int = 1
    """Number of replies to sample."""
    forced: str | None = None
    """Name of the tool that the reply must call; empty for any tool, None if no call is required."""
    no_calls: bool = False
    """True if replies are plain text even if they look like tool calls."""
    one_call: bool = False
    """True if a reply may contain at most one tool call."""
    form: Form | None = None
    """Required output format; None for plain text."""
    instructed: bool = False
    """True if the first message has the `instructions` of a Responses request."""
    id: str = ""
    """Id by which a later request can refer to the answer; empty if the answer is not stored."""
    size: int = 0
    """Size of the request's body in bytes."""


def read_object(content: bytes) -> dict[str, object]:
    """Parse a request body, which must be a JSON object.

    Raises:
        Refusal: the body is not a JSON object, is nested too deeply, or contains NaN or Infinity.
    """
    try:
        raw = json.loads(content, parse_constant=refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(raw, dict):
        raise Refusal(400, "the body is not a JSON object")
    return cast("dict[str, object]", raw)


def read_request(raw: dict[str, object], *, chat: bool, default_tokens: int, size: int) -> GenerationRequest:
    """Validate a parsed Chat Completions request (`chat`) or Completions request of `size` bytes.

    `default_tokens` limits the reply if the request sets no limit.

    Raises:
        Refusal: a field is missing, malformed or not supported; status and code follow OpenAI.
    """
    for name, why in _UNREAD.items():
        if raw.get(name) not in (None, [], {}, "", 0, False):
            raise Refusal(400, why, "unsupported_parameter", name)
    n = _integer(raw, "n", 1, 1, _MOST_CHOICES)
    if raw.get("best_of") not in (None, n):
        raise Refusal(400, "best_of must equal n: every sampled reply is returned", "unsupported_parameter", "best_of")
    if raw.get("modalities") not in (None, ["text"]):
        raise Refusal(400, "replies are text: modalities must be ['text']", "unsupported_parameter", "modalities")
    form = _form(raw, chat)
    messages, tools = _conversation(raw) if chat else ([], {})
    forced = _tool_choice(raw, tools) if chat else None
    options = raw.get("stream_options")
    model = raw.get("model")
    if not isinstance(model, str):
        raise Refusal(400, "you must provide a model parameter", None, "model")
    return GenerationRequest(
        model,
        chat,
        _sampling(raw, default_tokens),
        messages=messages,
        tools=tools,
        prompt="" if chat else _prompt(raw.get("prompt")),
        seeded=raw.get("seed") is not None,
        stream=_flag(raw, "stream"),
        usage=isinstance(options, dict) and cast("dict[str, object]", options).get("include_usage") is True,
        logprobs=_flag(raw, "logprobs") if chat else raw.get("logprobs") is not None,
        token_ids=_flag(raw, "return_token_ids"),
        prompt_logprobs=raw.get("prompt_logprobs") is not None,
        prompt_temperature=read_number(raw, "prompt_logprobs_temperature", 1.0, 0.0, 100.0),
        template_options=_template_options(raw, chat),
        ignore_eos=_flag(raw, "ignore_eos"),
        stops=_stops(raw),
        n=n,
        forced=forced,
        no_calls=raw.get("tool_choice") == "none",
        one_call=raw.get("parallel_tool_calls") is not None and not _flag(raw, "parallel_tool_calls"),
        form=form,
        size=size,
    )


def _form(raw: dict[str, object], chat: bool) -> Form | None:
    try:
        form = read_form(raw.get("response_format"))
    except ValueError as error:
        raise Refusal(400, str(error), None, "response_format") from None
    if form is not None and not chat:
        why = "a plain prompt cannot have a response_format: use it with messages"
        raise Refusal(400, why, "unsupported_parameter", "response_format")
    return form


def _template_options(raw: dict[str, object], chat: bool) -> dict[str, bool | int | float | str]:
    """Return `chat_template_kwargs`; values must be numbers, booleans or plain words that cannot become control tokens.

    Raises:
        Refusal: the name or value of an option is not allowed.
    """
    options: object = raw.get("chat_template_kwargs") or {}
    name = "chat_template_kwargs"
    if not isinstance(options, dict) or (options and not chat):
        raise Refusal(400, f"{name} must be an object, and goes with chat completions", None, name)
    for option, value in cast("dict[str, object]", options).items():
        if not _WORD.fullmatch(option) or option in _OWN:
            raise Refusal(400, f"{name}.{option[:80]} is not an option of a chat template", None, name)
        if not isinstance(value, bool | int | float) and not (isinstance(value, str) and _WORD.fullmatch(value)):
            raise Refusal(400, f"{name}.{option} must be true, false, a number or a word", None, name)
    return cast("dict[str, bool | int | float | str]", options)


def _sampling(raw: dict[str, object], default_tokens: int) -> Sampling:
    limit = "max_completion_tokens" if raw.get("max_completion_tokens") is not None else "max_tokens"
    stops: object = raw.get("stop_token_ids") or []
    if not isinstance(stops, list) or not all(type(id) is int for id in cast("list[object]", stops)):
        raise Refusal(400, "stop_token_ids must be a list of integers", None, "stop_token_ids")
    return Sampling(
        temperature=read_number(raw, "temperature", 1.0, 0.0, 100.0),
        max_tokens=_integer(raw, limit, default_tokens, 1, 2**31),
        stop_ids=tuple(cast("list[int]", stops)),
        seed=_integer(raw, "seed", 0, -(2**63), 2**63 - 1) % 2**63,
        top_p=read_number(raw, "top_p", 1.0, 1e-9, 1.0),
        top_k=max(_integer(raw, "top_k", 0, -1, 2**31), 0),
        min_p=read_number(raw, "min_p", 0.0, 0.0, 1.0),
        repetition_penalty=read_number(raw, "repetition_penalty", 1.0, 1e-3, 100.0),
    )


def _stops(raw: dict[str, object]) -> tuple[str, ...]:
    value: object = raw.get("stop") or []
    strings = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(strings) > _MOST_STOPS:
        raise Refusal(400, f"there may be at most {_MOST_STOPS} stop strings", None, "stop")
    if not all(isinstance(string, str) and 0 < len(string) <= _LONGEST_STOP for string in strings):
        raise Refusal(400, f"each stop string must have 1 to {_LONGEST_STOP} characters", None, "stop")
    return tuple(dict.fromkeys(cast("list[str]", strings)))


def _tool_choice(raw: dict[str, object], tools: dict[str, Tool]) -> str | None:
    """Return the name of the tool that the reply must call; empty for any tool, None if no call is required.

    Raises:
        Refusal: the choice is malformed or names an unknown tool.
    """
    choice, name = raw.get("tool_choice"), "tool_choice"
    if choice in (None, "auto", "none"):
        return None
    tool = "" if choice == "required" else _named(choice)
    if not isinstance(tool, str) or (choice != "required" and not tool):
        raise Refusal(400, f"{name} must be auto, none, required, or a function by name", "unsupported_parameter", name)
    if not tools or (tool and tool not in tools):
        raise Refusal(400, f"{name} asks for a call, but {tool[:64]!r} is not among the tools", None, name)
    return next(iter(tools)) if len(tools) == 1 else tool


def _named(choice: object) -> object:
    function = cast("dict[str, object]", choice).get("function") if isinstance(choice, dict) else None
    return cast("dict[str, object]", function).get("name") if isinstance(function, dict) else None


def _conversation(raw: dict[str, object]) -> tuple[list[Message], dict[str, Tool]]:
    """Return the messages and tools of a chat request, checked against each other.

    Raises:
        Refusal: messages or tools are malformed, or messages contain calls and the request has no tools.
    """
    try:
        tools, messages = read_tools(raw.get("tools")), _messages(raw.get("messages"))
        check_results(messages)
    except ValueError as error:
        raise Refusal(400, str(error), None, "messages") from None
    if not tools and any("calls" in message for message in messages):
        raise Refusal(400, "messages hold tool_calls: send the tools too", None, "tools")
    return messages, tools


def _messages(raw: object) -> list[Message]:
    if not isinstance(raw, list) or not raw:
        raise Refusal(400, "messages must be a list of at least one message", None, "messages")
    messages: list[Message] = []
    for place, entry in enumerate(cast("list[object]", raw)):
        name = f"messages[{place}]"
        message = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise Refusal(400, f"{name}.role must be one of {', '.join(_ROLES)}", None, name)
        content, calls, id = message.get("content"), message.get("tool_calls"), message.get("tool_call_id")
        if content is None and role == "assistant":  # next to calls, or from clients that send an empty reply
            content = ""
        if calls and role == "assistant":
            messages.append({"role": role, "content": _content(content, name), "calls": read_calls(calls, name)})
            continue
        messages.append({"role": _ROLES[role], "content": _content(content, name)})
        if role == "tool" and isinstance(id, str):
            messages[-1]["tool_call_id"] = id
    if messages[-1]["role"] == "assistant":
        raise Refusal(400, "the last message is the assistant's own: nothing to answer", None, "messages")
    return messages


def _content(raw: object, name: str) -> str:
    if isinstance(raw, str):
        return raw
    parts = cast("list[object]", raw) if isinstance(raw, list) else []
    texts = [cast("dict[str, object]", part).get("text") for part in parts if isinstance(part, dict)]
    if not parts or len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise Refusal(400, f"{name}.content must be a string or a list of text parts", None, name)
    return "".join(cast("list[str]", texts))


def _prompt(raw: object) -> list[int] | str:
    if isinstance(raw, list) and len(cast("list[object]", raw)) == 1 and isinstance(raw[0], list | str):
        raw = cast("object", raw[0])
    if isinstance(raw, str) and raw:
        return raw
    if isinstance(raw, list) and raw and all(type(id) is int and 0 <= id <= LARGEST_ID for id in cast("list[object]", raw)):
        return cast("list[int]", raw)
    raise Refusal(400, "prompt must be a text or a list of token ids, one a request", None, "prompt")


def read_number(raw: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    """Return a number field of a request, which must be from `low` to `high`.

    Raises:
        Refusal: the value is not a number, or is out of these bounds.
    """
    value = raw.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not low <= value <= high or not math.isfinite(value):
        raise Refusal(400, f"{name} must be a number from {low:g} to {high:g}", None, name)
    return float(value)


def _integer(raw: dict[str, object], name: str, default: int, low: int, high: int) -> int:
    value = raw.get(name)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise Refusal(400, f"{name} must be an integer from {low} to {high}", None, name)
    return value


def _flag(raw: dict[str, object], name: str) -> bool:
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(400, f"{name} must be true or false", None, name)
    return bool(value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def reason_of(error: BadConfig) -> str:
    """Return the message for a client whose request an engine or a template rejected."""
    return str(error)[:500]
