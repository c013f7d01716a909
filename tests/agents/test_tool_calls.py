"""Replies of a hostile model: whatever is sampled is read, and fast."""

import time

import pytest

from agentgym.agents.native import ACT
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Call, Tool, parse_call

TOOLS = {ACT.name: ACT}
FORMS = {
    "hermes": "<tool_call>{}</tool_call>",
    "llama3": "{}",
    "mistral": "[TOOL_CALLS][{}]",
    "mistral-args": "[TOOL_CALLS]act[ARGS]{}",
    "mistral-ids": "[TOOL_CALLS]act[CALL_ID]abcdefghi[ARGS]{}",
    "xml": "<tool_call>\n<function=act>\n<parameter=command>\n{}\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>act\n<arg_key>command</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_endless_nesting_is_a_bad_call_and_no_fault(name: str) -> None:
    for depth in (*range(850, 1010), 5_000):  # some of these can be read and not be written
        body = '{"name": "act", "arguments": {"command": ' + "[" * depth + "]" * depth + "}}"
        for attempt in FAMILIES[name].read(FORMS[name].replace("{}", body), TOOLS):
            assert name in ("glm", "xml") or not isinstance(parse_call(attempt.action, TOOLS), Call)


def test_unfinished_pairs_take_no_cubic_time() -> None:
    began = time.process_time()
    FAMILIES["glm"].read("<tool_call>act\n" + "<arg_key></arg_key><arg_value>" * 600, TOOLS)
    FAMILIES["xml"].read("<function=f><parameter=a>x" * 8_000, TOOLS)
    assert time.process_time() - began < 10  # 0.2 s; half a minute where every key is tried with every later end


def test_booleans_may_be_written_as_python_has_them() -> None:
    tool = Tool("look", "Look.", {"properties": {"close": {"type": "boolean"}}, "required": ["close"]})
    text = "<tool_call>\n<function=look>\n<parameter=close>\nTrue\n</parameter>\n</function>\n</tool_call>"
    (attempt,) = FAMILIES["xml"].read(text, {"look": tool})
    assert parse_call(attempt.action, {"look": tool}) == Call("look", {"close": True})
