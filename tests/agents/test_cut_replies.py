"""A model is told that its token limit cut its last reply, by every agent that puts observations into a prompt."""

from collections.abc import Callable
from typing import Any

import pytest
from native_talks import begun
from tokenizers_for_tests import byte_level

from agentgym import ChatAgent, CompletionAgent, SummaryAgent, Task, WindowAgent
from agentgym.agents.cut import CUT
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine

INFO: dict[str, Any] = {"admissible": ["look"], "valid": True}
AGENTS: dict[str, Callable[[], Any]] = {
    "chat": lambda: ChatAgent(ScriptedEngine([])),
    "rendered": lambda: ChatAgent(ScriptedEngine([]), history="template"),
    "window": lambda: WindowAgent(ScriptedEngine([])),
    "window of none": lambda: WindowAgent(ScriptedEngine([]), turns=0),
    "summary": lambda: SummaryAgent(ScriptedEngine([])),
}
PUBLISHED: dict[str, Callable[[], Any]] = {
    "verl-agent": lambda: WindowAgent(ScriptedEngine([]), prompt="alfworld@verl-agent"),
    "verl-agent, shop": lambda: WindowAgent(ScriptedEngine([]), prompt="webshop@verl-agent"),
    "search-r1": lambda: CompletionAgent(ScriptedEngine([])),
}


def prompts_of(agent: Any) -> list[str]:
    """Return three prompts: the first, the one after a reply of seven tokens that was cut, the one after a whole reply."""
    talk, found = agent.begin(Task(instruction="find the cup"), {}), []
    for finish, reply in (("length", "<think>"), ("stop", "<think>a</think><action>look</action>"), ("stop", "")):
        ids = talk.prompt(f"room {talk.turns}", INFO)
        assert talk.prompt(f"room {talk.turns}", INFO) == ids  # asking twice gives the same
        assert talk.fork().prompt(f"room {talk.turns}", INFO) == ids
        found.append(agent.tokenizer.decode(ids))
        stop = [agent.sampling.stop_ids[0]] if finish == "stop" else []
        talk.reply(Completion([*agent.tokenizer.encode(reply, add_special_tokens=False), *stop], [], finish))
    return found


@pytest.mark.parametrize("name", AGENTS)
def test_the_next_observation_begins_with_the_notice(name: str) -> None:
    first, after, later = prompts_of(AGENTS[name]())
    notice = CUT.format(7)
    assert "limit" not in first and f"{notice}\n\nroom 1" in after and after.count(notice) == 1
    assert later.count("limit of") == (0 if "window" in name else 1) and "room 2" in later
    assert "limit of" not in later.rpartition("room 1")[2]


def test_a_window_remembers_the_observation_without_the_notice() -> None:
    assert "[Observation 2: 'room 1', Action 2: 'look']" in prompts_of(AGENTS["window"]())[2]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_prompt_stays_as_it_was_published(name: str) -> None:
    assert not any("limit of" in prompt for prompt in prompts_of(PUBLISHED[name]()))


def test_a_policy_made_from_nothing_is_not_told() -> None:
    tokenizer = byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|act|>"]})
    assert not any("limit of" in prompt for prompt in prompts_of(ChatAgent(ScriptedEngine([]), tokenizer)))


def test_a_call_that_was_cut_is_told_in_its_result_and_of_several_in_the_last() -> None:
    def replied(text: str) -> Any:
        talk = begun("qwen3")
        ids = talk.template.encoder.encode([text])
        turn = talk.turn("", Completion(ids, [0.0] * len(ids), "length"))
        return talk, turn, CUT.format(len(ids))

    call = '<tool_call>\n{"name": "submit", "arguments": {"answer": "x"}}\n</tool_call>\n'
    talk, _, notice = replied(call[:30])
    prompt = talk.template.encoder.decode(talk.prompt("That is no call.", INFO))
    assert prompt.count(notice) == 1
    talk, _, notice = replied(call + call)
    assert len(talk.attempts) == 2
    talk.acts(talk.attempts[0].action)
    first = talk._pieces("one", INFO, waiting=True)
    assert notice not in "".join(first)
    assert notice in "".join(talk._pieces("two", INFO))
