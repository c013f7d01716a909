"""The agent that remembers the last few turns."""

import pytest

import agentgym
from agentgym import BadConfig, ChatAgent, Task, WindowAgent
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine

INFO = {"admissible": ["look", "go north"]}


def prompts(agent: WindowAgent, turns: int, talk: agentgym.agents.window.WindowConversation | None = None) -> list[str]:
    talk = talk or agent.begin(Task(instruction="find the cup"), {})
    found = []
    for turn in range(turns):
        found.append(agent.tokenizer.decode(talk.prompt(f"room {turn}", INFO)))
        reply = f"<think>t{turn}</think><action>go {turn}</action>"
        talk.reply(Completion([*agent.tokenizer.encode(reply), 258], [], "stop"))
    return found


def test_the_prompt_of_a_later_turn_word_for_word() -> None:
    texts = prompts(WindowAgent(ScriptedEngine([])), 4)
    head = (
        "<|im_start|>user\nYou are an expert agent in a text environment. Your task is: find the cup\n"
        "Before this step you have taken 3 step(s). These are the last 2 observations and the actions you took: "
        "[Observation 2: 'room 1', Action 2: 'go 1']\n[Observation 3: 'room 2', Action 3: 'go 2']\n"
        "You are now at step 4 and your current observation is: room 3\n"
        "Your admissible actions in this situation are: ['look', 'go north'].\n"
    )
    assert texts[3].startswith(head) and texts[3].endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert "t2" not in texts[3]


def test_the_first_prompt_has_no_history() -> None:
    first = prompts(WindowAgent(ScriptedEngine([])), 1)[0]
    assert "Your current observation is: room 0\n" in first and "find the cup" not in first and "step(s)" not in first


def test_an_action_as_long_as_it_was_sent_is_remembered() -> None:
    agent = WindowAgent(ScriptedEngine([]), turns=1)
    talk = agent.begin(Task(), {})
    talk.prompt("a room", INFO)
    talk.reply(Completion(agent.tokenizer.encode("x" * 50), [], "length"))
    assert talk.action == "x" * 30 and not talk.parsed
    assert f"[Observation 1: 'a room', Action 1: '{'x' * 30}']" in agent.tokenizer.decode(talk.prompt("b", INFO))


def test_where_commands_are_not_finite_the_prompt_says_so() -> None:
    agent = WindowAgent(ScriptedEngine([]))
    for admissible, expected in ((None, "[anything]"), ([], "[]")):
        text = agent.tokenizer.decode(agent.begin(Task(), {}).prompt("a room", {"admissible": admissible}))
        assert f"Your admissible actions in this situation are: {expected}.\n" in text


def test_windows_of_other_lengths() -> None:
    assert "'room 0'" in prompts(WindowAgent(ScriptedEngine([]), turns=9), 4)[3]
    none = prompts(WindowAgent(ScriptedEngine([]), turns=0), 4)[3]
    assert "Observation" not in none and "the last 0 observations" in none
    with pytest.raises(BadConfig, match="turns is -1"):
        WindowAgent(ScriptedEngine([]), turns=-1)


def test_forks_are_independent() -> None:
    agent = WindowAgent(ScriptedEngine([]))
    talk = agent.begin(Task(), {})
    prompts(agent, 2, talk)
    other = talk.fork()
    talk.prompt("a", INFO)
    talk.reply(Completion(agent.tokenizer.encode("<think></think><action>here</action>"), [], "stop"))
    assert "here" not in agent.tokenizer.decode(other.prompt("b", INFO))
    assert "here" in agent.tokenizer.decode(talk.prompt("b", INFO))


def test_every_turn_is_a_row_of_its_own() -> None:
    engine = ScriptedEngine(lambda prompt, turn: f"<think></think><action>{turn + 1}</action>")
    (episode,) = agentgym.collect(WindowAgent(engine), "rlvr/GuessNumber-v0", tasks=1)
    assert [turn.action for turn in episode.turns] == [str(n + 1) for n in range(len(episode.turns))]
    for turn, after in zip(episode.turns, episode.turns[1:], strict=False):
        assert after.prompt_ids[: len(turn.prompt_ids)] != turn.prompt_ids


def test_a_memory_of_everything_is_another_agent() -> None:
    assert not isinstance(WindowAgent(ScriptedEngine([])), ChatAgent)
