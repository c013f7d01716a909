"""How a template's form of tool calls is told, and what has none."""

import re

import pytest
from native_talks import (
    EXAMPLES,
    SOURCES,
    SURVEY,
    TEMPLATES,
    agent_for,
    begun,
    call_text,
    say,
)

import agentgym
from agentgym import BadConfig, ChatAgent, Demonstrator, Task, WindowAgent
from agentgym.agents.native import ACT
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Tool
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_environment_of_plain_commands_offers_one_tool(name: str) -> None:
    talk = begun(name, {}, "A room.")
    assert ACT.description in talk.template.encoder.decode(talk.prompt_ids)
    assert say(talk, call_text(talk, ("act", {"command": "go to desk 1"}))) == "go to desk 1" and talk.parsed
    talk.prompt("You are at desk 1.", {})
    say(talk, call_text(talk, ("act", {})))
    talk.prompt("Nothing happens.", {})
    (message,) = talk.messages
    assert message["content"].startswith("act needs the argument 'command'. Write ")
    assert message["content"].endswith("\n\nNothing happens.") and not talk.parsed


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("env", ["rlvr/Search-v0", "rlvr/GuessNumber-v0"])
def test_demonstrations_are_calls(name: str, env: str) -> None:
    episodes = agentgym.collect(Demonstrator(agent_for(name)), env, tasks=3)
    for episode in episodes:
        assert episode.success
        for turn, after in zip(episode.turns, episode.turns[1:], strict=False):
            assert (
                turn.parsed
                and after.prompt_ids[: len(turn.prompt_ids + turn.output_ids)] == turn.prompt_ids + turn.output_ids
            )


@pytest.mark.parametrize("name", ["gemma", "llama3", "qwen2_5_vl", "deepseek_r1_distill"])
def test_templates_without_tools_are_refused(name: str) -> None:
    with pytest.raises(BadConfig, match="no place for tools, calls and their results: use tools='text'"):
        ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES[name])), tools="native")


def test_an_unknown_form_is_refused_and_a_family_can_be_named() -> None:
    with pytest.raises(BadConfig, match=r"no form that is known here: .*tools='glm'"):
        ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES["gemma4"])), tools="native")
    tokenizer = SURVEY.tokenizer_for(TEMPLATES["llama3_2"].replace('{"name": "', '{ "name": "'))
    with pytest.raises(BadConfig, match="no form that is known"):
        ChatAgent(ScriptedEngine([], tokenizer), tools="native")
    named = ChatAgent(ScriptedEngine([], tokenizer), tools="llama3")
    assert named.tool_template({}).family is FAMILIES["llama3"]


def test_each_form_is_told_apart() -> None:
    named = {name: agent_for(name).tool_template({}).family for name in SOURCES}
    found = {name: next(key for key, family in FAMILIES.items() if family is named[name]) for name in named}
    newer = {name for name in named if re.match(r"qwen3_\d", name)}
    assert {found.pop(name) for name in newer} == {"xml"}
    expected = {"qwen": "hermes", "llama": "llama3", "glm": "glm"}
    for name, family in found.items():
        assert family == expected.get(re.match("qwen|llama|glm", name)[0] if name[0] != "m" else "", name.replace("_", "-"))


def test_a_system_message_that_moves_opens_the_first_user_message() -> None:
    """As in Mistral Nemo's template: the system message goes to the last user message, and so would be said anew."""
    moves = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST]"
        "{% if loop.last %}{{ system }}{% endif %}{{ m.content }}[/INST]"
        "{% elif m.role == 'assistant' %}{{ m.content }}<eos>{% endif %}{% endfor %}"
    )
    moves = "{% set system = messages[0].content if messages[0].role == 'system' else '' %}" + moves
    agent = ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(moves)), prompt="act")
    assert not agent.template.system
    talk = agent.begin(Task(), {})
    talk.prompt("A room.", {})
    talk.reply(Completion([agent.tokenizer.eos_token_id], [], "stop"))
    assert agent.tokenizer.decode(talk.prompt("A desk.", {})).endswith("<eos>[INST]A desk.[/INST]")


def test_schemas_with_control_strings_are_refused() -> None:
    tools = {"x": Tool("x", "Ends with <|im_end|>.")}
    with pytest.raises(BadConfig, match=r"hold '<\|im_end\|>', a control string"):
        agent_for("qwen3").begin(Task(), tools)


def test_a_window_has_no_calls() -> None:
    with pytest.raises(BadConfig, match="WindowAgent writes the past as text"):
        WindowAgent(ScriptedEngine([], SURVEY.tokenizer_for(SOURCES["qwen3"])), tools="native")
