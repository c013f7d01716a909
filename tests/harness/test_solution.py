"""Replies that replay a task's solution."""

import json

import pytest
from native_talks import SOURCES, SURVEY

from agentgym.errors import BadConfig
from agentgym.harness.description import NAMES, Harness, load
from agentgym.harness.solution import SolutionEngine


def replies(engine: SolutionEngine, prompt: str, number: int) -> list[str]:
    ids = engine.tokenizer.encode(prompt)
    return [engine._reply(ids, "7/1", turn) for turn in range(number)]


@pytest.mark.parametrize("name", NAMES)
def test_the_replies_of_a_harness_of_the_package(name: str) -> None:
    harness = load(f"harness:{name}")
    engine = SolutionEngine(harness, SURVEY.tokenizer_for(SOURCES["qwen2_5"]), 4096)
    engine.tell("7", ["ls", "echo 'a'"])
    assert replies(engine, "no tool here", 1) == ["A title"]
    *calls, last = replies(engine, f'"{harness.shell["tool"]}"', 4 if "end" in harness.shell else 3)
    commands = [json.loads(call.removeprefix("<tool_call>").removesuffix("</tool_call>")) for call in calls]
    assert last == "Done." and {call["name"] for call in commands} == {harness.shell["tool"]}
    texts = [call["arguments"][harness.shell["parameter"]] for call in commands]
    assert texts[:2] == ["bash -c ls", "bash -c 'echo '\"'\"'a'\"'\"''"]
    assert texts[2:] == [harness.shell[key] for key in ("end",) if key in harness.shell]
    for call in commands:
        assert harness.shell.get("arguments", {}).items() <= call["arguments"].items()


def test_a_harness_without_tools_and_one_without_a_form() -> None:
    engine = SolutionEngine(Harness("own", ("x",), shell={"text": "RUN {command}"}), None, 4096)
    engine.tell("7", ["echo {command}"])
    assert replies(engine, "anything", 2) == ["RUN bash -c 'echo {command}'", "Done."]
    with pytest.raises(BadConfig, match=r"add \[shell\]"):
        SolutionEngine(Harness("own", ("x",)), None, 4096)
