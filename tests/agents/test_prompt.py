"""Prompts in files, and fields that environment text cannot break."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, ChatAgent, Task, UnknownName
from agentgym.agents.encode import UntrustedText
from agentgym.agents.fields import describe
from agentgym.agents.prompt import FOLDER, load_prompt, parse_prompt
from agentgym.core.actions import Tool
from agentgym.engines.scripted import ScriptedEngine
from agentgym.evaluate.suite import resolve, suites


def test_every_prompt_in_the_folder_reads() -> None:
    names = {file.stem for file in FOLDER.glob("*.txt")}
    expected = {"bare", "act", "mini-swe", "react", "search", "search-r1", "summary", "swe", "tools", "window"}
    protocols = {"alfworld@agentgym", "alfworld@verl-agent", "webshop@verl-agent"}
    assert names == expected | {"react-tools", "window-tools", "rlcr"} | protocols
    for name in names:
        assert load_prompt(name).turn.fields


@pytest.mark.parametrize("name", [name for name in suites() if "@" in name])
def test_the_prompt_of_a_protocol_has_a_name_of_its_own(name: str) -> None:
    prompt = resolve(name).prompt
    assert prompt is not None and "@" in prompt and load_prompt(prompt).turn.fields
    if "unseen" not in name:
        assert prompt == name


@given(st.text(max_size=20), st.text(max_size=20))
def test_fields_are_replaced_once(task: str, observation: str) -> None:
    prompt = parse_prompt('[turn]\n{task}: {observation} {"name": 1} {}\n[reply]\nbare', "p")
    pieces = prompt.turn.fill({"task": lambda: task, "observation": lambda: "{task}" + observation})
    assert pieces == [task, ": ", "{task}" + observation, ' {"name": 1} {}']
    assert [isinstance(piece, UntrustedText) for piece in pieces] == [True, False, True, False]


def test_first_message_is_the_turns_where_there_is_none() -> None:
    prompt = load_prompt("bare")
    assert prompt.first == prompt.turn and not prompt.system.fill({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "text before the first section"),
        ("[turn]\nx", r"the sections \[turn\] and \[reply\] are needed; found \['turn'\]"),
        ("[trun]\nx", "Did you mean 'turn'"),
        ("[turn]\n{observatoin}\n[reply]\nbare", "Did you mean 'observation'"),
        ("[turn]\n\ue0000\ue001\n[reply]\nbare", "reserved"),
    ],
)
def test_bad_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        parse_prompt(text, "mine")


def test_names_and_paths(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'react'"):
        load_prompt("raect")
    with pytest.raises(UnknownName):
        load_prompt("../prompts/react")
    with pytest.raises(BadConfig, match="No such file"):
        load_prompt(tmp_path / "none.txt")
    own = tmp_path / "own.txt"
    own.write_text("[system]\nThe task: {task}.\n[turn]\n({step}) {observation}\nYou may: {admissible}\n[reply]\nbare\n")
    agent = ChatAgent(ScriptedEngine([]), prompt=own)
    talk = agent.begin(Task(instruction="find {it}"), {})
    text = agent.tokenizer.decode(talk.prompt("a room", {"admissible": ["look", "go"]}))
    assert text == (
        "<|im_start|>system\nThe task: find {it}.<|im_end|>\n"
        "<|im_start|>user\n(1) a room\nYou may: 'look', 'go'<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_are_described() -> None:
    env = agentgym.make("rlvr/Search-v0")
    agent = ChatAgent(ScriptedEngine([]), prompt="search")
    text = agent.tokenizer.decode(agent.begin(Task(), env.tools).prompt("Who?", {}))
    for name, tool in env.tools.items():
        assert f"\n- {name}(" in text and tool.description in text


def test_a_tool_of_two_arguments_is_described_as_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
    assert describe(Tool("add", "Adds.", schema)) == (
        '- add(a: string, b: integer): Adds. Write {"name": "add", "arguments": {"a": "…", "b": "…"}}'
    )
    assert describe(Tool("stop", "Ends.")) == "- stop(): Ends."
