"""Tool calls in the syntax of each model family: parsed from sampled text, and written for prompts."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentgym.agents.encode import UntrustedText
from agentgym.agents.parse import split_thought
from agentgym.core.actions import Call, Tool
from agentgym.core.json_value import JSON

CALL_ID = "call{:05d}"
"""Form of the id for calls without an id, by their index: nine characters, as Mistral's templates require."""
_ID = re.compile(r"[A-Za-z0-9]{9}")
_CALL_NAME = re.compile(r"\s*([\w.-]+)\s*(?=<arg_key>|</tool_call>|\Z)")
_PAIR = re.compile(r"\s*<arg_key>([^<]*)</arg_key>\s*<arg_value>")
_CALL_END = re.compile(r"\s*(?:</tool_call>|\Z)")
_OPEN = re.compile(r"<tool_call>\s*(?:<function=)?|<function=")
_NAME = re.compile(r"\s*([^<>\s]+)\s*>")
_KEY = re.compile(r"\s*<parameter=([^<>\n]+)>\n?")
_END = re.compile(r"\s*</function>")
_MISTRAL_NAME = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*([^\s\[\]]*)\s*)?\[ARGS\]\s*")
_DECODER = json.JSONDecoder()
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


class Attempt(NamedTuple):
    """A call as an action for the environment: JSON with `name` and `arguments`, or the raw text if it cannot be parsed."""

    action: str
    name: str = ""
    """Name of the tool; empty if the call cannot be parsed."""
    id: str = ""
    """Id that the model gave the call; empty if there is none, or if it is not nine letters or digits."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """A syntax of tool calls. A template with this syntax contains `sign`; `close` ends a call (empty: nothing does)."""

    sign: re.Pattern[str]
    close: str
    read: Callable[[str, Mapping[str, Tool]], list[Attempt]]
    """Parses the calls in a reply without its thought, in order; a malformed call is included as raw text."""
    write: Callable[[Call], list[str]]
    """Writes a reply that makes the call, as pieces; the arguments are untrusted text."""


def _json(value: object) -> str:
    try:
        return _ENCODE(value)
    except RecursionError:  # reading takes deeper nesting than writing: no call, or its episode would end as a fault
        return '"nested too deeply"'


def _value(text: str) -> tuple[JSON, int] | None:
    """Return (the JSON value at the beginning of a text, its end in characters), or None."""
    try:
        return _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None


def _attempt(raw: JSON) -> Attempt:
    """Return the call in a JSON value, with its arguments under the key `arguments` or `parameters`."""
    if not isinstance(raw, dict):
        return Attempt(_json(raw))
    arguments = raw.get("arguments", raw.get("parameters", {}))
    name = raw.get("name")
    id = raw.get("id")
    known = isinstance(id, str) and _ID.fullmatch(id)
    return Attempt(_json({"name": name, "arguments": arguments}), str(name), str(id) if known else "")


def parse_api_call(name: str, arguments: str) -> Attempt:
    """Return the call with a chat API's name and arguments, which are JSON or malformed text."""
    text = arguments.strip()
    value = _value(text)
    if value is None or value[1] != len(text):
        return Attempt(f'{{"name": {_json(name)}, "arguments": {text}}}')
    return _attempt({"name": name, "arguments": value[0]})


def _read_hermes(text: str, tools: Mapping[str, Tool]) -> list[Attempt]:
    attempts: list[Attempt] = []
    _, opened, rest = text.partition("<tool_call>")
    while opened:
        rest = rest.lstrip()
        value = _value(rest)
        if value is not None and isinstance(value[0], dict):  # a string in it may spell the closing tag
            attempts.append(_attempt(value[0]))
            rest = rest[value[1] :]
        else:
            inside = re.split("</?tool_call>", rest, maxsplit=1)[0]
            attempts.append(Attempt(inside.strip()))
            rest = rest[len(inside) :]
        _, opened, rest = rest.partition("<tool_call>")
    return attempts


def _write_hermes(call: Call) -> list[str]:
    body = _json({"name": call.name, "arguments": call.arguments})
    return ["<tool_call>\n", UntrustedText(body), "\n</tool_call>"]


def _read_llama3(text: str, tools: Mapping[str, Tool]) -> list[Attempt]:
    rest = text.strip()
    if not rest.startswith("{"):  # else a value may spell the tag
        _, tagged, rest = rest.partition("<|python_tag|>")
        rest = rest.strip()
        if tagged and not rest.startswith("{"):
            return [Attempt(rest)]
    attempts: list[Attempt] = []
    while rest.startswith("{"):
        value = _value(rest)
        if value is None:
            return [*attempts, Attempt(rest)]
        attempts.append(_attempt(value[0]))
        rest = rest[value[1] :].lstrip("; \t\r\n").removeprefix("<|python_tag|>").lstrip()
    return attempts


def _write_llama3(call: Call) -> list[str]:
    return [UntrustedText(_json({"name": call.name, "parameters": call.arguments}))]


class _Bare:
    """Finds the end of each value in a syntax that writes values verbatim, without escapes.

    A value may contain its own closing tag, the end of a call, or whole calls. The value ends at the first closing tag
    that is outside of such inner calls, is followed by the next parameter or the end of the call, and has no other
    closing tag between the end of the call and the next call. If a value ends its own call and opens another, the text
    is ambiguous, and is read as two calls. vLLM's parser (081866a6, `glm4_moe_tool_parser.py`) always ends a call at
    the first `</tool_call>`: it also reads these two calls, but cuts values that are complete here.
    """

    __slots__ = ("_close", "_marks", "_nested", "_opening", "_text")

    def __init__(self, text: str, marks: re.Pattern[str], close: str, opening: str) -> None:
        self._text, self._marks, self._close, self._opening = text, marks, close, opening
        self._nested = True  # until calls were opened and never closed: then every later value is read without looking

    def end(self, place: int) -> re.Match[str] | None:
        """Return the closing tag of the value that begins at position `place`, or None."""
        text = self._text
        first = text.find(self._close, place)
        if first < 0:
            return None
        if text.find(self._opening, place, first) < 0:  # no call in the value before its first closing tag
            mark = self._marks.match(text, first - (first > place and text[first - 1] == "\n"))
            if mark and (mark.lastgroup is None or self._ends(mark)):
                return mark
        if self._nested:
            depth = 0
            for mark in self._marks.finditer(self._text, place):
                if mark.lastgroup == "open":
                    depth += 1
                elif not depth and self._ends(mark):
                    return mark
                elif depth and mark.lastgroup == "last":
                    depth -= 1
            self._nested = False
        marks = self._marks.finditer(self._text, place)
        return next((mark for mark in marks if mark.lastgroup != "open" and self._ends(mark)), None)

    def _ends(self, mark: re.Match[str]) -> bool:
        """Return True if a closing tag ends its value: no other one is between the end of the call and the next call."""
        if mark.lastgroup != "last":
            return True
        other = self._text.find(self._close, mark.end())
        return other < 0 or self._text.find(self._opening, mark.end(), other) >= 0


_GLM_MARKS = re.compile(
    r"(?P<open><tool_call>\s*[\w.-]+\s*<arg_key>[^<]*</arg_key>\s*<arg_value>)"
    r"|</arg_value>(?=\s*(?:(?P<last></tool_call>|\Z)|<arg_key>[^<]*</arg_key>\s*<arg_value>))"
)
_XML_MARKS = re.compile(
    r"(?P<open><function=[^<>\s]+\s*>\s*<parameter=[^<>\n]+>)"
    r"|\n?</parameter>(?=\s*(?:(?P<last></function>)|<parameter=[^<>\n]+>))"
)


def _read_glm(text: str, tools: Mapping[str, Tool]) -> list[Attempt]:
    attempts: list[Attempt] = []
    bare, place = _Bare(text, _GLM_MARKS, "</arg_value>", "<tool_call>"), 0
    while (start := text.find("<tool_call>", place)) >= 0:
        start += len("<tool_call>")
        call, place = _read_glm_call(bare, text, start, tools)
        if call is None:
            stop = text.find("</tool_call>", start)
            call, place = Attempt(text[start : stop if stop >= 0 else None].strip()), stop if stop >= 0 else len(text)
        attempts.append(call)
    return attempts


def _read_glm_call(bare: _Bare, text: str, place: int, tools: Mapping[str, Tool]) -> tuple[Attempt | None, int]:
    """Return the call whose name is at position `place`, and the call's end; None if the call is malformed."""
    name = _CALL_NAME.match(text, place)
    if name is None:
        return None, place
    pairs: list[tuple[str, str]] = []
    place = name.end()
    while key := _PAIR.match(text, place):
        close = bare.end(key.end())
        if close is None:
            return None, place
        pairs.append((key[1], text[key.end() : close.start()]))
        place = close.end()
    end = _CALL_END.match(text, place)
    return (_typed(name[1], pairs, tools), end.end()) if end else (None, place)


def _typed(name: str, pairs: Sequence[tuple[str, str]], tools: Mapping[str, Tool]) -> Attempt:
    """Return a call from (name, text) pairs; arguments whose type is known and not string are parsed as JSON if possible."""
    arguments: dict[str, object] = {}
    tool = tools.get(name)
    for key, text in pairs:
        kind = tool.kind(key) if tool else "string"
        if kind == "string":
            arguments[key] = text
            continue
        stated = text.strip()
        value = _value(stated.lower() if kind == "boolean" else stated)  # some write `True`
        arguments[key] = value[0] if value is not None and value[1] == len(stated) else text
    return Attempt(_json({"name": name, "arguments": arguments}), name)


def _write_glm(call: Call) -> list[str]:
    pieces = [f"<tool_call>{call.name}\n"]
    for key, value in call.arguments.items():
        text = value if isinstance(value, str) else _json(value)
        pieces += [f"<arg_key>{key}</arg_key>\n<arg_value>", UntrustedText(text), "</arg_value>\n"]
    return [*pieces, "</tool_call>"]


def _read_xml(text: str, tools: Mapping[str, Tool]) -> list[Attempt]:
    attempts: list[Attempt] = []
    bare, place = _Bare(text, _XML_MARKS, "</parameter>", "<function="), 0
    while opened := _OPEN.search(text, place):  # models leave out the outer tag now and then
        call, place = _read_xml_call(bare, text, opened.end(), tools) if opened[0].endswith("=") else (None, opened.end())
        if call is None:
            stop = text.find("</tool_call>", opened.end())
            call, place = Attempt(text[opened.start() : stop if stop >= 0 else None].strip()), max(stop, place)
        attempts.append(call)
    return attempts


def _read_xml_call(bare: _Bare, text: str, place: int, tools: Mapping[str, Tool]) -> tuple[Attempt | None, int]:
    """Return the call whose name is at position `place`, and the call's end.

    For a malformed call, return None and the position up to which it could be parsed.
    """
    name = _NAME.match(text, place)
    if name is None:
        return None, place
    pairs: list[tuple[str, str]] = []
    place = name.end()
    while key := _KEY.match(text, place):
        close = bare.end(key.end())
        if close is None:
            return None, len(text)  # no later one can be closed either
        pairs.append((key[1], text[key.end() : close.start()]))
        place = close.end()
    end = _END.match(text, place)
    return (_typed(name[1], pairs, tools), end.end()) if end else (None, place)


def _write_xml(call: Call) -> list[str]:
    pieces = [f"<tool_call>\n<function={call.name}>\n"]
    for key, value in call.arguments.items():
        text = value if isinstance(value, str) else _json(value)
        pieces += [f"<parameter={key}>\n", UntrustedText(text), "\n</parameter>\n"]
    return [*pieces, "</function>\n</tool_call>"]


def _read_mistral(text: str, tools: Mapping[str, Tool]) -> list[Attempt]:
    attempts: list[Attempt] = []
    _, opened, rest = text.partition("[TOOL_CALLS]")
    while opened:
        read, rest = _read_mistral_part(rest.lstrip())
        attempts += read
        _, opened, rest = rest.partition("[TOOL_CALLS]")
    return attempts


def _read_mistral_part(rest: str) -> tuple[list[Attempt], str]:
    """Return the calls after one `[TOOL_CALLS]`, and the text after them; strings in the calls may contain the marker."""
    if named := _MISTRAL_NAME.match(rest):
        value = _value(rest[named.end() :])
        if value is not None:
            raw: JSON = {"name": named[1], "arguments": value[0], "id": named[2] or ""}
            return [_attempt(raw)], rest[named.end() + value[1] :]
        body, sign, after = rest[named.end() :].partition("[TOOL_CALLS]")
        return [Attempt(f'{{"name": {_json(named[1])}, "arguments": {body.strip()}')], sign + after
    value = _value(rest)
    if value is not None:
        calls = value[0] if isinstance(value[0], list) else [value[0]]
        return [_attempt(call) for call in calls], rest[value[1] :]
    attempts, rest = list[Attempt](), rest.removeprefix("[").lstrip()
    while rest.startswith("{") and (value := _value(rest)) is not None:  # a list up to where it breaks off
        attempts.append(_attempt(value[0]))
        rest = rest[value[1] :].lstrip(", \t\r\n")
    broken, sign, after = rest.partition("[TOOL_CALLS]")
    if broken.strip() or not attempts:
        attempts.append(Attempt(broken.strip()))
    return attempts, sign + after


def _write_mistral(call: Call) -> list[str]:
    body = _json({"name": call.name, "arguments": call.arguments, "id": CALL_ID.format(0)})
    return ["[TOOL_CALLS] [", UntrustedText(body), "]"]


def _write_mistral_named(call: Call) -> list[str]:
    return [f"[TOOL_CALLS]{call.name}[ARGS]", UntrustedText(_json(call.arguments))]


def _write_mistral_ids(call: Call) -> list[str]:
    return [f"[TOOL_CALLS]{call.name}[CALL_ID]{CALL_ID.format(0)}[ARGS]", UntrustedText(_json(call.arguments))]


FAMILIES: dict[str, CallForm] = {  # the first whose sign a template writes is its family
    "glm": CallForm(re.compile("<arg_key>"), "</tool_call>", _read_glm, _write_glm),
    "xml": CallForm(re.compile("<function="), "</tool_call>", _read_xml, _write_xml),
    "mistral-ids": CallForm(re.compile(r"\[CALL_ID\]"), "", _read_mistral, _write_mistral_ids),
    "mistral-args": CallForm(re.compile(r"\[ARGS\]"), "", _read_mistral, _write_mistral_named),
    "mistral": CallForm(re.compile(r"\[TOOL_CALLS\]"), "", _read_mistral, _write_mistral),
    "hermes": CallForm(re.compile(r"<tool_call>\s*\{"), "</tool_call>", _read_hermes, _write_hermes),
    "llama3": CallForm(re.compile(r'\{"name": ?"\w+", ?"parameters"'), "", _read_llama3, _write_llama3),
}


def read_reply(family: CallForm, text: str, opened: bool, tools: Mapping[str, Tool]) -> tuple[bool, str, list[Attempt]]:
    """Return (True if a reply has a complete thought, the text after the thought, the calls in that text).

    `opened`: the prompt already opened the thought. If the thought is unfinished, the text is the whole reply, and there
    are no calls. Thought tags inside a call do not count.
    """
    thought, unfinished, rest = split_thought(text, opened)
    if thought and not opened and family.read(text.partition("<think>")[0], tools):
        thought = False
    if not thought and not unfinished:
        rest = text.strip()
    return thought, rest, [] if unfinished else family.read(rest, tools)
