"""Values of arguments come back as they were written, whatever they hold: in every family's form and in text tools."""

import json
import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.agents.parse import Reply
from agentgym.agents.tool_calls import FAMILIES, read_reply
from agentgym.core.actions import Call, Tool, parse_call

ANY = {"type": "object"}
STRINGS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
TYPED = {
    "type": "object",
    "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "o": ANY, "l": {"type": "array"}},
    "required": ["s"],
}
TOOLS = {"write": Tool("write", "Write.", STRINGS), "note-it.now": Tool("note-it.now", "Note.", STRINGS)}
WHOLE = {name: "".join(f.write(Call("write", {"a": "x", "b": "\n"}))) for name, f in FAMILIES.items()}
SIGNS = ("</tool_call>", "<tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<think>", "</think>")
TAGS = ("</arg_value>", "<arg_value>", "<arg_key>", "</function>", "</parameter>", "<function=write>", "<parameter=a>")
SCALARS = (
    "007",
    "",
    " ",
    "null",
    "true",
    "1e5",
    '"',
    "'",
    "\\",
    "{",
    "}",
    "]",
    ",",
    "\n",
    "\r\n",
    "\t",
    "&lt;",
    "&amp;",
    "é",
    "漢",
    "\u2028",
)
PARTS = st.one_of(st.sampled_from([*SIGNS, *TAGS, *SCALARS, *WHOLE.values()]), st.text(max_size=4))
VALUES = st.lists(PARTS, max_size=6).map("".join)
BARE = {
    "glm": (
        r"<tool_call>\s*[\w.-]+\s*<arg_key>[^<]*</arg_key>\s*<arg_value>",
        r"</arg_value>(?=\s*</tool_call>)",
        "<arg_key>",
    ),
    "xml": (r"<function=[^<>\s]+\s*>\s*<parameter=[^<>\n]+>", r"</parameter>(?=\s*</function>)", "<parameter="),
}


def told_apart(name: str, value: str) -> bool:
    """Whether the family's form of a value is not also that of other values or calls: whole calls in it are."""
    if name not in BARE:
        return True
    opened, closed, pair = BARE[name]
    close = closed[: closed.index("(")]
    depth = 0
    for mark in re.finditer(f"(?P<open>{opened})|(?P<close>{closed})|(?P<next>{close}(?=\\s*{pair}))|{close}\\s*\\Z", value):
        depth += 1 if mark["open"] else -1 if mark["close"] else 0
        if depth < 0 or (not depth and not mark["open"] and not mark["close"]):
            return False
    return depth == 0 and not value.endswith("<")


def read(name: str, *calls: Call, content: str = "") -> list[Call | str]:
    family = FAMILIES[name]
    text = content + "\n".join("".join(family.write(call)) for call in calls)
    attempts = read_reply(family, text, False, TOOLS)[2]
    return [parse_call(attempt.action, TOOLS) for attempt in attempts]


@pytest.mark.parametrize("name", FAMILIES)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_calls_come_back_as_they_were_written(name: str, data: st.DataObject) -> None:
    values = VALUES.filter(lambda value: told_apart(name, value))
    calls = [
        Call(
            data.draw(st.sampled_from(sorted(TOOLS))),
            {key: data.draw(values) for key in ("a", "b")[: data.draw(st.integers(1, 2))]},
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    assert read(name, *calls) == calls


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("value", [*SIGNS, *TAGS, *SCALARS, *WHOLE.values(), "<think>a</think>b", "a</think>b"])
def test_a_value_may_be_any_sign(name: str, value: str) -> None:
    for written in (value, f"a{value}b", f"\n{value}\n", value * 2):
        assert read(name, Call("write", {"a": written})) == [Call("write", {"a": written})]
        two = [Call("write", {"a": written, "b": "x"}), Call("write", {"a": "y", "b": written})]
        assert read(name, *two) == two


@pytest.mark.parametrize("name", ["glm", "xml"])
def test_the_end_of_its_own_call_in_a_value(name: str) -> None:
    end = {"glm": "</arg_value>\n</tool_call>", "xml": "\n</parameter>\n</function>\n</tool_call>"}[name]
    for value in (end, f"a{end}b", end * 2):
        calls = [Call("write", {"a": value}), Call("write", {"a": "next"})]
        assert read(name, *calls[:1]) == calls[:1]
        assert read(name, *calls) == calls


@pytest.mark.parametrize("name", FAMILIES)
def test_types_come_back(name: str) -> None:
    tool = Tool("f", "F.", TYPED)
    arguments = {"s": "7", "n": -3, "o": {"a": [None, {"</arg_value>": "[TOOL_CALLS]"}], "": "null"}, "l": [1, "1", True]}
    call = Call("f", arguments)
    (attempt,) = FAMILIES[name].read("".join(FAMILIES[name].write(call)), {"f": tool})
    assert parse_call(attempt.action, {"f": tool}) == call


@pytest.mark.parametrize("name", FAMILIES)
def test_long_replies_of_signs_are_read_to_their_end(name: str) -> None:
    """In about a second; in minutes where each opener is tried with each later end, and not at all by recursion."""
    pieces = [*SIGNS, *TAGS, WHOLE[name], WHOLE[name][:-20], "<tool_call>write\n<arg_key>a</arg_key>\n<arg_value>", " " * 50]
    for piece in pieces:
        FAMILIES[name].read(piece * (100_000 // len(piece)), TOOLS)
    assert FAMILIES[name].read("".join(random.Random(0).choices(pieces, k=10_000)) + WHOLE[name], TOOLS)


@example(body="submit[]")
@given(body=VALUES)
def test_the_body_of_a_text_call_is_everything_up_to_its_last_closer(body: str) -> None:
    for spelling in (f"<write>{body}</write>", f"write[{body}]", json.dumps({"name": "write", "arguments": {"a": body}})):
        parsed = Reply("call").parse(spelling, TOOLS)
        assert parsed.has_action and parse_call(parsed.action, TOOLS) == Call("write", {"a": body})
