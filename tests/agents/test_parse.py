"""What of a reply goes to the environment."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.parse import Parsed, Reply
from agentgym.core.actions import Tool
from agentgym.errors import BadConfig

TEXT = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TOOLS: Mapping[str, Tool] = {"search": Tool("search", "Look it up.", TEXT), "stop": Tool("stop", "End.")}
BARE, TAG, CALL, BLOCK = Reply("bare"), Reply("tag"), Reply("call"), Reply("block", "sh")
THINK_TAG, THINK_CALL = Reply("tag", think=True), Reply("call", think=True)


@pytest.mark.parametrize(
    ("form", "text", "action", "found"),
    [
        (BARE, " go to desk 1\n", "go to desk 1", True),
        (BARE, "<think>so</think>\n\nlook", "look", True),
        (BARE, "so</think>look", "look", True),
        (BARE, "  ", "", False),
        (BARE, "<think>I shall look", "<think>I shall look", False),
        (TAG, "<action>look</action>", "look", True),
        (TAG, "<action> go\nnorth </action> done", "go\nnorth", True),
        (TAG, "<action>a</action> no: <action>b</action>", "b", True),
        (TAG, "<action>a</action> no: <action>b", "a", True),
        (TAG, "<think><action>a</action></think><action>b</action>", "b", True),
        (TAG, "<think>the format is <action>x</action>", "e format is <action>x</action>", False),
        (TAG, "<action></action>", "<action></action>", False),
        (TAG, "I think that I should go to the desk", "think that I should go to the desk"[-30:], False),
        (Reply("tag", "do"), "<do>look</do>", "look", True),
        (THINK_TAG, "<think>hm</think><action>look</action>", "look", True),
        (THINK_TAG, "<action>look</action>", "look", False),
        (THINK_TAG, "hm</think><action>look</action>", "look", False),
        (CALL, "search[a b]", "search[a b]", True),
        (CALL, "<search>a</search>", "<search>a</search>", True),
        (CALL, '{"name": "search", "arguments": {"query": "a"}}', '{"name": "search", "arguments": {"query": "a"}}', True),
        (CALL, "search[ what ]] is </think> ]", "search[ what ]] is </think> ]", True),
        (CALL, "I look it up.\nsearch[a]", "search[a]", True),
        (CALL, "find[a]", "find[a]", False),
        (CALL, "stop[]\nand more", "stop[]\nand more", False),
        (THINK_CALL, "<think>hm</think>\n\nsearch[a]", "search[a]", True),
        (THINK_CALL, "search[a]", "search[a]", False),
        (BLOCK, "THOUGHT: so\n\n```sh\nls -la\ncat <<'E'\n]\nE\n```\n", "search[ls -la\ncat <<'E'\n]\nE]", True),
        (BLOCK, "```sh\na\n```\nor\n```sh\nb\n```", "```sh\na\n```\nor\n```sh\nb\n```", False),
        (BLOCK, "```bash\nls\n```", "```bash\nls\n```", False),
        (BLOCK, "<think>```sh\na\n```</think>```sh \nb\n```", "search[b]", True),
        (THINK_CALL, "<think>hm</think>search[the tag </think>]", "search[the tag </think>]", True),
    ],
)
def test_what_is_sent(form: Reply, text: str, action: str, found: bool) -> None:
    assert form.parse(text, TOOLS) == Parsed(action, found)


def test_a_thought_that_the_prompt_opened() -> None:
    assert THINK_TAG.parse("hm</think><action>look</action>", {}, opened=True) == Parsed("look", True)
    assert TAG.parse("hm <action>look</action>", {}, opened=True) == Parsed("hm <action>look</action>", False)
    assert CALL.parse("search[a]", TOOLS, opened=True) == Parsed("search[a]", False)


def test_a_bare_reply_cut_by_length_is_no_action() -> None:
    assert BARE.parse("go to de", {}, complete=False) == Parsed("go to de", False)
    assert TAG.parse("<action>look</action> and", {}, complete=False) == Parsed("look", True)


@given(st.text(max_size=40))
def test_every_reply_sends_something_that_it_holds(text: str) -> None:
    for form in (BARE, TAG, CALL, THINK_TAG, THINK_CALL):
        action, _ = form.parse(text, TOOLS)
        assert action in text and action == action.strip()


@given(st.text(max_size=40))
def test_an_action_in_tags_comes_through(action: str) -> None:
    if "<" not in action and action.strip():
        assert THINK_TAG.parse(f"<think>x</think><action>{action}</action>", {}) == Parsed(action.strip(), True)


def test_reply_sections() -> None:
    assert Reply.read("think tag do", "p") == Reply("tag", "do", True)
    assert Reply.read("call", "p") == CALL
    assert Reply.read("block sh", "p") == BLOCK and Reply.read("block", "p").tag == "bash"
    for text in ("", "think", "json", "bare minimum", "tag a b"):
        with pytest.raises(BadConfig, match=r"prompt p: \[reply\]"):
            Reply.read(text, "p")
