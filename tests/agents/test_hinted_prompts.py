"""A hint in the prompt of an agent: its own slot, data like all that comes from outside, and the prompt without it."""

import asyncio
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers_for_tests import byte_level, survey

import agentgym
from agentgym import BadConfig, ChatAgent, Episode, Hint, OracleAgent, SummaryAgent, Task, WindowAgent
from agentgym.agents.completion import CompletionAgent
from agentgym.agents.prompt import parse_prompt
from agentgym.engines.scripted import ScriptedEngine
from agentgym.registry import Maker
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutPool
from agentgym.trainers.data.segments import build

SURVEY = survey()
QWEN3 = SURVEY.tokenizer_for(SURVEY.templates()["qwen3"])
TOKENIZER = byte_level()
ENV = "rlvr/GuessNumber-v0"
WORDS = "It is from 40 to 60."


def task(secret=50):
    return Task("guess", {"secret": secret, "limit": 100}, "train/0/7", "train")


def played(agent, hint, task=None, env=ENV):
    pool = RolloutPool({"e": Maker(env, {})})
    try:
        (episode,) = asyncio.run(pool.collect(agent, [Job(task or globals()["task"](), 0, 3, "g", "e", hint=hint)]))
    finally:
        pool.close()
    return episode


def as_user(agent):
    agent.template.role = "user"
    return agent


THOUGHT = [f"<think>\nt{n}\n</think>\n\n<action>{n}</action>" for n in (10, 90, 50)]
CALLS = [json.dumps({"name": "act", "arguments": {"command": str(n)}}) for n in (10, 90, 50)]
NATIVE = [
    f"<tool_call>\n{CALLS[0]}\n</tool_call>\n<tool_call>\n{CALLS[1]}\n</tool_call>",
    f"<tool_call>\n{CALLS[2]}\n</tool_call>",
]
UNTIL = ["<think>a</think><search>10</search>", "<think>b</think><search>90</search>", "<answer>50</answer>"]
GUESSES = [f"<think>a</think><action>{n}</action>" for n in (10, 90, 50)]
NOTED = [GUESSES[0], GUESSES[1], "<think>x</think>tried 10 and 90", GUESSES[2]]
AGENTS = {
    "chat": lambda: ChatAgent(ScriptedEngine(GUESSES, TOKENIZER), prompt="act"),
    "chat, one answer cut": lambda: ChatAgent(ScriptedEngine(GUESSES, TOKENIZER), prompt="act", turn_tokens=30),
    "template that stands": lambda: ChatAgent(ScriptedEngine(GUESSES, TOKENIZER), prompt="act", history="template"),
    "template that rewrites": lambda: as_user(ChatAgent(ScriptedEngine(THOUGHT, QWEN3), prompt="act", history="template")),
    "window": lambda: WindowAgent(ScriptedEngine(GUESSES, TOKENIZER)),
    "summary": lambda: SummaryAgent(ScriptedEngine(NOTED, TOKENIZER), prompt="act", turns=2),
    "completion": lambda: CompletionAgent(ScriptedEngine(UNTIL, TOKENIZER), prompt="search-r1"),
    "native": lambda: ChatAgent(ScriptedEngine(NATIVE, QWEN3), prompt="tools", tools="native"),
}


def calls(episode):
    return [call for turn in episode.turns for call in turn.calls]


@pytest.mark.parametrize("name", AGENTS)
def test_the_plain_prompt_is_the_prompt_of_the_same_episode_without_a_hint(name):
    plain, hinted = played(AGENTS[name](), None), played(AGENTS[name](), Hint(0.8))
    assert hinted.hint == Hint(0.8, WORDS) and plain.hint is None
    assert len(hinted.turns) == 3 and [t.action for t in hinted.turns] == [t.action for t in plain.turns]
    agent = AGENTS[name]()
    for one, other in zip(calls(hinted), calls(plain), strict=True):
        assert list(one.plain_ids) == list(other.prompt_ids) and one.output_ids == other.output_ids
        assert not other.plain_ids
        text = agent.template.encoder.decode(one.prompt_ids)
        assert text.count(f"Hint: {WORDS}") == 1 and WORDS not in agent.template.encoder.decode(one.plain_ids)
    assert [(t.observation, t.state_key) for t in hinted.turns] == [(t.observation, t.state_key) for t in plain.turns]


@pytest.mark.parametrize("name", AGENTS)
def test_rows_with_the_hint_and_without_it_are_those_of_the_two_prompts(name):
    plain, hinted = played(AGENTS[name](), None), played(AGENTS[name](), Hint(0.8))
    with_hint = dataclasses.replace(hinted, hint=dataclasses.replace(hinted.hint, in_training=True))
    ours, theirs = build([hinted]), build([plain])
    assert [row.ids.tolist() for row in ours] == [row.ids.tolist() for row in theirs]
    assert [row.turns.tolist() for row in ours] == [row.turns.tolist() for row in theirs]
    assert all(row.hint_removed for row in ours) and not any(row.hint_removed for row in theirs)
    rows_with_hint = build([with_hint])
    assert not any(row.hint_removed for row in rows_with_hint)
    assert sum(row.trained for row in rows_with_hint) == sum(row.trained for row in ours)
    assert sum(len(row) for row in rows_with_hint) > sum(len(row) for row in ours)


def test_without_a_hint_the_line_of_an_episode_says_nothing_of_hints():
    episode = played(AGENTS["chat"](), None)
    line = episode.to_json()
    assert "hint" not in line and "plain_ids" not in line
    assert Episode.from_json(line).to_json() == line


@pytest.mark.parametrize("name", AGENTS)
def test_an_episode_with_a_hint_is_read_back_as_it_was_written(name):
    episode = played(AGENTS[name](), Hint(0.8, "And: hurry.", in_training=True))
    back = Episode.from_json(episode.to_json())
    assert back.hint == Hint(0.8, f"{WORDS}\n\nAnd: hurry.", in_training=True) and back.to_json() == episode.to_json()
    old = episode.to_json().replace('"in_training":', '"kept":')  # the name in files before 2026-11-28
    assert old != episode.to_json() and Episode.from_json(old).to_json() == episode.to_json()
    for one, other in zip(calls(back), calls(episode), strict=True):
        assert one.plain_ids == other.plain_ids and one.prompt_ids == other.prompt_ids


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(QWEN3.get_added_vocab())), st.text(max_size=20))
def test_control_strings_in_a_hint_are_letters(control, around):
    agent = ChatAgent(ScriptedEngine(lambda *_: THOUGHT[0], QWEN3), prompt="act")
    text = f"{around}{control}{around} x"
    plain, hinted = (played(agent, hint, task(10)) for hint in (None, Hint(0, text)))
    control_ids = agent.template.encoder.control_ids
    (first, *_), (other, *_) = plain.turns, hinted.turns
    assert [i for i in other.prompt_ids if i in control_ids] == [i for i in first.prompt_ids if i in control_ids]
    assert list(other.plain_ids) == list(first.prompt_ids)


def test_a_prompt_may_have_words_of_its_own_for_a_hint():
    form = "[turn]\n{observation}\n[hint]\n(a teacher says: {hint})\n[reply]\nbare"
    agent = ChatAgent(ScriptedEngine(["50"], TOKENIZER), prompt=parse_prompt(form, "own"))
    (turn,) = played(agent, Hint(1.0)).turns
    assert turn.messages[-1]["content"].endswith("Guess it.\n\n(a teacher says: It is from 50 to 50.)")
    with pytest.raises(BadConfig, match=r"prompt own: \[hint\] has no \{hint\}"):
        parse_prompt("[turn]\n{observation}\n[hint]\nhelp\n[reply]\nbare", "own")
    with pytest.raises(BadConfig, match=r"no field of \[first\] of prompt own 'hint'"):
        parse_prompt("[turn]\n{hint}\n[reply]\nbare", "own")


def test_a_policy_without_tokens_is_shown_no_hint():
    with pytest.raises(BadConfig, match="is to be played with a hint, and OracleAgent shows none"):
        played(OracleAgent(), Hint(1.0))


def test_where_the_environment_has_nothing_to_say_the_episode_has_no_hint():
    agent = ChatAgent(ScriptedEngine(lambda *_: "<action>CRANE</action>", TOKENIZER), prompt="act")
    word = agentgym.make("rlvr/Wordle-v0").tasks(1)[0]
    episode = played(agent, Hint(0.5), word, "rlvr/Wordle-v0")  # half of one word
    assert episode.hint is None and not any(turn.plain_ids for turn in episode.turns) and "hint" not in episode.to_json()


def test_success_rates_leave_hinted_episodes_out():
    hinted, plain = played(AGENTS["chat"](), Hint(0.8)), played(AGENTS["chat"](), None)
    lost = dataclasses.replace(plain, success=False, reason="horizon", attempt=1)
    rate = agentgym.success([hinted, plain, lost, hinted])
    assert (rate.mean, rate.episodes, rate.tasks, rate.faults) == (0.5, 2, 1, 0)
    assert agentgym.success([hinted]).episodes == 0
