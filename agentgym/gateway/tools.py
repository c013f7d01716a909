"""Tool calling as in OpenAI's API: tools of a request, calls and results in messages, and calls parsed from a reply."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Any, cast

from agentgym.agents import tool_calls
from agentgym.agents.encode import UntrustedText
from agentgym.agents.tool_calls import CALL_ID, Attempt, CallForm
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.actions import Call, Tool, key
from agentgym.errors import BadConfig
from agentgym.gateway.telling import OPENERS

Message = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OPENERS = re.compile("|".join(map(re.escape, OPENERS)))
_TAG_BEGUN = re.compile(r"<[^<>\n]*\Z")
MOST = 128


def read_tools(raw: object) -> dict[str, Tool]:
    """Return the tools of a request by name.

    Raises:
        ValueError: the list or an entry is malformed.
    """
    if raw in (None, []):
        return {}
    if not isinstance(raw, list) or len(cast("list[object]", raw)) > MOST:
        raise ValueError(f"tools must be a list of at most {MOST} functions")
    tools: dict[str, Tool] = {}
    for place, entry in enumerate(cast("list[object]", raw)):
        function = _table(_table(entry).get("function"))
        name, about = function.get("name"), function.get("description") or ""
        schema: object = function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in tools or not isinstance(about, str):
            raise ValueError(f"tools[{place}] must be a function with a unique name (letters, digits, _ and -)")
        properties = _table(schema).get("properties", {})
        if not isinstance(properties, dict) or not all(
            isinstance(property, dict) for property in _table(cast("object", properties)).values()
        ):
            raise ValueError(f"tools[{place}].function.parameters must be a JSON Schema of an object")
        tools[name] = Tool(name, about, {"properties": {}, **_table(schema)})
    return tools


def read_calls(raw: object, name: str) -> list[dict[str, str]]:
    """Return the calls of an assistant message as id, name and arguments.

    Raises:
        ValueError: a call is malformed.
    """
    calls: list[dict[str, str]] = []
    for entry in cast("list[object]", raw) if isinstance(raw, list) else [None]:
        function = _table(_table(entry).get("function"))
        call = {"id": _table(entry).get("id"), "name": function.get("name"), "arguments": function.get("arguments")}
        if not all(isinstance(value, str) for value in call.values()) or not _NAME.fullmatch(cast("str", call["name"])):
            raise ValueError(f"{name}.tool_calls must be calls of functions, each with id, name and arguments as a string")
        calls.append(cast("dict[str, str]", call))
    return calls


def check_results(messages: Sequence[Message]) -> None:
    """Check that tool messages with the right ids follow each message with calls.

    Raises:
        ValueError: a call is not answered, or a result answers no call.
    """
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool" and "tool_call_id" in message:
            if message["tool_call_id"] not in waiting:
                raise ValueError(f"messages[{place}] answers a tool_call_id that no open call before it has")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = {call["id"] for call in message.get("calls", ())}
    if waiting:
        raise ValueError("an assistant message with tool_calls must be followed by a tool message for each tool_call_id")


def canonical(message: Message) -> object:
    """Return a canonical form of a message, because clients may reformat JSON arguments."""
    content = message["content"].strip()
    calls = [[call["id"], call["name"], _respaced(call["arguments"])] for call in message.get("calls", ())]
    return [message["role"], content, *([calls] if calls else ()), *([i] if (i := message.get("tool_call_id")) else ())]


def tools_key(tools: Mapping[str, Tool]) -> str:
    """Return a key that identifies a request's tools; empty if there are none."""
    return hashlib.blake2b(key(tools).encode(), digest_size=16).hexdigest() if tools else ""


def read_reply(
    template: ToolTemplate, tools: Mapping[str, Tool], text: str, number: int, *, single: bool = False
) -> tuple[str, list[Attempt], Message]:
    """Return a reply's text, its calls in the syntax of the model family, and the message for the client.

    A reply with a malformed call is text as a whole, since the API cannot express such a call. `number` makes ids unique.
    With `single`, text after the first call is ignored.
    """
    _, rest, attempts = tool_calls.read_reply(template.family, text, bool(template.opened), tools)
    attempts = attempts[: 1 if single else None]
    calls: list[dict[str, str]] = []
    for place, attempt in enumerate(attempts):
        raw = _loaded(attempt.action)
        name, arguments = raw.get("name"), raw.get("arguments")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(arguments, dict):
            calls = []
            break
        id = attempt.id or CALL_ID.format((number * 16 + place) % 100_000)
        calls.append({"id": id, "name": name, "arguments": json.dumps(arguments, ensure_ascii=False)})
    if not calls or len({call["id"] for call in calls}) < len(calls):
        return text, [], {"role": "assistant", "content": text}
    start = text.rindex(rest)
    opener = _OPENERS.search(text, start)
    content = text[: opener.start() if opener else start].rstrip()
    return content, attempts, {"role": "assistant", "content": content, "calls": calls}


def second_call(template: ToolTemplate, tools: Mapping[str, Tool], text: str) -> bool:
    """Return True if a partial reply has begun a second call; to save time, parse it only if its end may begin a call."""
    if not any(sign in text[-24:] for sign in (*OPENERS, "{")):
        return False
    return len(tool_calls.read_reply(template.family, text, bool(template.opened), tools)[2]) > 1


def call_head(family: CallForm, name: str) -> str:
    """Return the fixed beginning of a call to tool `name`; if `name` is empty, the part before the name."""
    if not name:
        return commonprefix([call_head(family, name) for name in ("a", "b")])  # noqa: RUF071
    shapes: list[dict[str, object]] = [{}, {"a": "b"}]
    written = ["".join(family.write(Call(name, arguments))) for arguments in shapes]
    return _TAG_BEGUN.sub("", commonprefix(written)).rstrip("{ \n")  # noqa: RUF071


def results(
    messages: Sequence[Message], calls: Sequence[Mapping[str, str]]
) -> tuple[list[list[str]], list[tuple[str, list[str]]]] | None:
    """Return the results of calls, in the order of the calls, and the messages after them.

    Returns None if the messages do not begin with one result per call, or if other messages than user and system follow.
    """
    answers, after = messages[: len(calls)], messages[len(calls) :]
    by_call = {message.get("tool_call_id"): message["content"] for message in answers}
    if len(answers) != len(calls) or set(by_call) != {call["id"] for call in calls}:
        return None
    if any(message["role"] not in ("user", "system") for message in after):
        return None
    contents: list[list[str]] = [[UntrustedText(by_call[call["id"]])] for call in calls]
    return contents, [(message["role"], [UntrustedText(message["content"])]) for message in after]


def past(template: ToolTemplate, messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    """Return a conversation as (role, pieces) for the template, with past calls in the syntax of the model family.

    Raises:
        BadConfig: the arguments of a past call cannot be written in this syntax.
    """
    rendered: list[tuple[str, list[str]]] = []
    for message in messages:
        pieces: list[str] = [UntrustedText(message["content"])] if message["content"] or "calls" not in message else []
        for call in message.get("calls", ()):
            arguments = _loaded(call["arguments"])
            if call["arguments"].strip() != "{}" and not arguments:
                raise BadConfig(f"the arguments of the past call {call['id'][:40]!r} are not a JSON object")
            if not all(_NAME.fullmatch(name) for name in arguments):  # some families write them verbatim
                raise BadConfig(f"the past call {call['id'][:40]!r} has an argument whose name is not a plain word")
            pieces += [*(["\n"] if pieces else []), *template.family.write(Call(call["name"], arguments))]
        if "calls" in message:
            template.check_written(bool(message["content"]), len(message["calls"]))
        rendered.append((message["role"], pieces))
    return rendered


def openai_calls(calls: Sequence[Mapping[str, str]]) -> list[dict[str, object]]:
    """Return tool calls as Chat Completions writes them."""
    return [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]


def refused(error: BadConfig) -> BadConfig:
    """Return an error about a template, reworded for a client of the API."""
    return BadConfig(str(error).replace("use tools='text'", "describe the tools in the prompt instead"))


def _table(raw: object) -> dict[str, object]:
    return cast("dict[str, object]", raw) if isinstance(raw, dict) else {}


def _loaded(text: str) -> dict[str, object]:
    """Return the JSON object in a text; empty if the text is anything else, or has NaN or Infinity, which JSON lacks."""
    try:
        return _table(json.loads(text, parse_constant=refuse_constant))
    except (ValueError, RecursionError):
        return {}


def refuse_constant(name: str) -> object:
    """Refuse NaN and the infinities, which JSON does not have.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not JSON")


def _respaced(text: str) -> str:
    """Return JSON with uniform spacing and all numbers as floats, because JavaScript writes 1.0 as 1."""
    try:
        return json.dumps(json.loads(text, parse_int=float), sort_keys=True)
    except (ValueError, RecursionError, OverflowError):
        return text
