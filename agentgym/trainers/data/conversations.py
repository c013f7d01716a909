"""Convert episodes to the messages that chat templates take: calls with ids and arguments as mappings, then results."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentgym.agents.native import NOT_EXECUTED, offered
from agentgym.agents.parse import split_thought
from agentgym.agents.tool_calls import CALL_ID, FAMILIES, Attempt, CallForm, read_reply
from agentgym.core.actions import Call, Tool
from agentgym.episodes.episode import Episode, Turn

Messages = list[dict[str, Any]]
SIGNS = re.compile(r'<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|\{"name": ?"[^"]*", ?"parameters"')
"""Pattern of the start of a call in any model family's syntax; the text before it is the reply's content."""
_OWN_ID = re.compile(r"call\d{5}")


def conversations(episode: Episode, tools: Mapping[str, Tool] | None = None) -> list[Messages]:
    """Return the messages of an episode, replies included, as one or more conversations.

    A new conversation begins at a system message and at a prompt that does not extend the tokens of the previous turn.
    All calls of a reply are in one message: each entry of `tool_calls` has `id`, `type` and `function` (`name`,
    `arguments` as a mapping). The result of each call follows as a `tool` message with `tool_call_id` and `name`. A call
    that cannot be parsed remains text, and the answer to it is a user message. `tools` are the environment's tools; the
    call syntax of some model families needs them to type the arguments.
    """
    talks: list[_Conversation] = []
    before: Turn | None = None
    for number, turn in enumerate(episode.turns):
        begins = turn.messages[:1] and turn.messages[0].get("role") == "system"
        context = [*before.prompt_ids, *before.output_ids] if before else []
        if turn.prompt_ids and context and list(turn.prompt_ids[: len(context)]) != context:
            begins = True
        if not talks or begins:
            talks.append(_Conversation(offered(tools or {}), commands=tools == {}))
        talk = talks[-1]
        talk.hear(turn.messages)
        if turn.text or turn.action:
            same = before is not None and not begins and _same_reply(before, turn, context)
            talk.say(turn, native=same or _native(turn, episode.turns[number + 1 : number + 2]), same=same)
        before = turn
    return [talk.messages for talk in talks]


def _native(turn: Turn, after: Sequence[Turn]) -> bool | None:
    """Return True if a `tool` message answers the reply (its calls were parsed); None if nothing follows the reply."""
    if "call" in turn.extra:
        return True
    return after[0].messages[0].get("role") == "tool" if after and after[0].messages else None


def _same_reply(before: Turn, turn: Turn, context: list[int]) -> bool:
    """Return True if a turn is another call of the previous turn's reply: no tokens came in between."""
    if turn.output_ids:
        return list(turn.prompt_ids) == context
    return not turn.text and cast("dict[str, object]", turn.extra).get("call", 0) != 0 and "call" in before.extra


class _Conversation:
    """A conversation under construction."""

    def __init__(self, tools: Mapping[str, Tool], commands: bool) -> None:
        self.messages: Messages = []
        self._tools, self._commands = tools, commands
        self._count = 0  # number of calls so far
        self._open: list[tuple[str, str]] = []  # id and name of the calls that have no result yet
        self._reply: dict[str, Any] | None = None  # the last message with calls

    def hear(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Add the messages that a turn added to the prompt."""
        answered = bool(self._open)
        for message in _in_order(messages):
            role, content = str(message.get("role")), message.get("content") or ""
            if role == "tool":
                if self._open:
                    id, name = self._open.pop(0)
                    self.messages.append({"role": "tool", "content": content, "tool_call_id": id, "name": name})
                elif not (answered and content == NOT_EXECUTED):  # answers a call that is in no turn
                    self.messages.append({"role": "user", "content": content})
                continue
            raw = message.get("tool_calls") or message.get("calls")
            calls = _stored(raw) if role == "assistant" and raw else None
            if calls:
                self._add(str(content), calls)
            else:
                self._open = []
                self.messages.append({"role": role, "content": content})

    def say(self, turn: Turn, *, native: bool | None, same: bool) -> None:
        """Add a turn's reply, with its tool calls if it has any.

        `native`: see `_native`. `same`: the calls belong to the previous turn's reply.
        """
        content, calls = self._calls(turn, native)
        if not calls:
            self._open = []
            self.messages.append({"role": "assistant", "content": turn.text or turn.action})
        elif same and self._reply is not None and not self._open:
            self._extend(calls)
        else:
            self._add(content, calls)

    def _calls(self, turn: Turn, native: bool | None) -> tuple[str, list[Call]]:
        """Return the reply's text before its calls, and the calls; no calls if one of them cannot be parsed."""
        call = as_call(turn.action)
        if SIGNS.search(turn.text) and (native is not False or call):
            return _spelled(turn, call, self._tools)
        if turn.text and not native:
            return turn.text, []
        if call is None and self._commands and turn.action and not turn.action.lstrip().startswith("{"):
            call = Call(next(iter(self._tools)), {"command": turn.action})
        return ("" if turn.text == turn.action else turn.text), [call] if call and native is not False else []

    def _add(self, content: str, calls: Sequence[Call]) -> None:
        self._reply = {"role": "assistant", "content": content, "tool_calls": []}
        self._open = []
        self.messages.append(self._reply)
        self._extend(calls)

    def _extend(self, calls: Sequence[Call]) -> None:
        assert self._reply is not None
        for call in calls:
            id, self._count = CALL_ID.format(self._count), self._count + 1
            function = {"name": call.name, "arguments": _plain(call.arguments)}
            self._reply["tool_calls"].append({"id": id, "type": "function", "function": function})
            self._open.append((id, call.name))


def _in_order(messages: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Return messages with tool results in the order of the calls, if their ids are ours.

    A gateway's client may send another order.
    """
    count = next((place for place, message in enumerate(messages) if message.get("role") != "tool"), len(messages))
    ids = [str(message.get("tool_call_id")) for message in messages[:count]]
    if not all(_OWN_ID.fullmatch(id) for id in ids):
        return messages
    return [*(message for _, message in sorted(zip(ids, messages, strict=False), key=lambda p: p[0])), *messages[count:]]


def _spelled(turn: Turn, own: Call | None, tools: Mapping[str, Tool]) -> tuple[str, list[Call]]:
    """Parse a reply's calls in the syntax of a model family; return the text before the calls, and the calls.

    A family whose first call equals `own`, the call that was executed, is preferred. Without a parsed call, return the
    whole text and an empty list.
    """
    text = turn.text
    found: list[Call] = []
    for family in FAMILIES.values():
        if not family.sign.search(text):
            continue
        calls = _read(family, text, tools)
        if calls and (own is None or calls[0] == own):
            found = calls
            break
        found = found or calls
    if not found:
        return text, []
    rest = split_thought(text, False)[2]
    start = SIGNS.search(text, text.rindex(rest) if rest and rest in text else 0)
    return (text[: start.start()].rstrip() if start else ""), found


def _read(family: CallForm, text: str, tools: Mapping[str, Tool]) -> list[Call]:
    """Return the calls of a reply, or an empty list if one of them cannot be parsed."""
    attempts: list[Attempt] = read_reply(family, text, False, tools)[2]
    calls = [as_call(attempt.action) for attempt in attempts]
    return [] if any(call is None for call in calls) else cast("list[Call]", calls)


def as_call(action: object) -> Call | None:
    """Return the call in a JSON object with `name` and `arguments`, parsed or as text; None for anything else."""
    try:
        raw: Any = json.loads(action) if isinstance(action, str) else action
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    name, arguments = cast("dict[str, object]", raw).get("name"), cast("dict[str, object]", raw).get("arguments")
    if isinstance(name, str) and name and isinstance(arguments, dict):
        return Call(name, cast("dict[str, object]", arguments))
    return None


def _stored(raw: object) -> list[Call] | None:
    """Return the calls of a stored assistant message, whose arguments may be JSON text; None if one of them is malformed."""
    calls: list[Call] = []
    for entry in cast("list[object]", raw) if isinstance(raw, list) else [None]:
        table = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        inner = table.get("function", table)
        function = dict(cast("dict[str, object]", inner)) if isinstance(inner, dict) else {}
        if isinstance(text := function.get("arguments"), str):
            try:
                function["arguments"] = json.loads(text)
            except (ValueError, RecursionError):
                return None
        call = as_call(function)
        if call is None:
            return None
        calls.append(call)
    return calls


def _plain(value: Any) -> Any:
    """Return a JSON value whose numbers every JSON reader accepts; others (beyond 64 bits, nan) become text."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in cast("dict[object, object]", value).items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if type(value) is int and not -(2**63) <= value < 2**64:
        return str(value)
    return value
