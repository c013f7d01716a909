"""Token in, token out: what is held is never encoded again."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers_for_tests import byte_level, survey

import agentgym
from agentgym import BadConfig, ChatAgent, Sampling, Task
from agentgym.agents.cut import CUT
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine

SURVEY = survey()
QWEN3 = SURVEY.tokenizer_for(SURVEY.templates()["qwen3"])
CHATML = byte_level()
LINES = ["You see a desk 1.", "On the desk 1, you see a book 3.", "Nothing happens."]


def play(agent: ChatAgent, replies: Sequence[list[int]], observations: Sequence[str] = LINES, finish: str = "stop") -> Any:
    """Return the conversation after the last prompt, and every prompt."""
    talk, prompts = agent.begin(Task(), {}), []
    for place, observation in enumerate(observations):
        prompts.append(talk.prompt(observation, {}))
        if place < len(replies):
            talk.reply(Completion(replies[place], [0.0] * len(replies[place]), finish))
    return talk, prompts


def ids(text: str, tokenizer: Any = CHATML) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def test_the_next_prompt_is_what_is_held_and_the_bridge() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    _, prompts = play(agent, [ids("go to desk 1<|im_end|>")])
    assert prompts[0] == ids("<|im_start|>user\nYou see a desk 1.<|im_end|>\n<|im_start|>assistant\n")
    assert prompts[1] == [
        *prompts[0],
        *ids("go to desk 1<|im_end|>"),
        *ids("\n<|im_start|>user\nOn the desk 1, you see a book 3.<|im_end|>\n<|im_start|>assistant\n"),
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, len(CHATML) - 1), max_size=12), min_size=2, max_size=2), st.booleans())
def test_any_tokens_a_model_samples_are_kept(sampled: list[list[int]], stopped: bool) -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    stop = agent.sampling.stop_ids[0]
    replies = [[*(i for i in reply if i != stop), stop] if stopped else reply for reply in sampled]
    _, prompts = play(agent, replies, finish="stop" if stopped else "length")
    for before, reply, after in zip(prompts[:2], replies, prompts[1:], strict=True):
        assert after[: len(before) + len(reply)] == before + reply


def test_one_text_in_other_tokens_stays_in_those_tokens() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    letters = [i for letter in "desk 1" for i in ids(letter)]
    assert letters != ids("desk 1")
    talk, prompts = play(agent, [[*letters, agent.sampling.stop_ids[0]]])
    assert prompts[1][len(prompts[0]) :][: len(letters)] == letters
    assert talk.action == "desk 1"


def test_a_reply_cut_by_length_gets_its_end_token_from_the_bridge() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    talk, prompts = play(agent, [ids("go to de")], LINES[:2], "length")
    end = ids("<|im_end|>")
    assert prompts[1][len(prompts[0]) :][: len(ids("go to de")) + 1] == ids("go to de") + end
    assert talk.action == "go to de" and not talk.parsed
    whole, complete = play(agent, [ids("go to de") + end], LINES[:2])
    cut_text, untold = CHATML.decode(prompts[1]), CHATML.decode(complete[1])
    assert cut_text.replace(f"{CUT.format(len(ids('go to de')))}\n\n", "") == untold != cut_text and whole.parsed


def test_another_stop_token_ends_the_turn_as_well() -> None:
    sampling = Sampling(stop_ids=tuple(ids("<|endoftext|>")))
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare", sampling=sampling)
    assert agent.sampling.stop_ids == sampling.stop_ids
    talk, _ = play(agent, [ids("look<|endoftext|>")], LINES[:1])
    assert talk.action == "look"


def episode(agent: Any, tasks: int = 1) -> agentgym.Episode:
    (found,) = agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=tasks)
    return found


def test_an_episode_through_the_rollout() -> None:
    halves = iter(range(1, 100))
    engine = ScriptedEngine(lambda prompt, turn: f"<think>hm</think><action>{next(halves)}</action>", CHATML)
    played = episode(ChatAgent(engine))
    assert [turn.action for turn in played.turns][:3] == ["1", "2", "3"]
    for turn, after in zip(played.turns, played.turns[1:], strict=False):
        row_ids = turn.prompt_ids + turn.output_ids
        assert after.prompt_ids[: len(row_ids)] == row_ids
        assert len(turn.logprobs) == len(turn.output_ids)
        assert turn.output_ids[-1] == CHATML.eos_token_id and turn.text == f"<think>hm</think><action>{turn.action}</action>"
    assert [m["role"] for m in played.turns[0].messages] == ["system", "user"]
    assert played.turns[1].messages == [{"role": "user", "content": "Higher."}]


def test_the_seed_of_a_turn_reaches_the_engine_and_the_stop_tokens_too() -> None:
    seen: list[Sampling] = []

    class Watching(ScriptedEngine):
        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, session: str, **_: Any) -> Completion:
            seen.append(sampling)
            return await super().generate(prompt_ids, sampling, session)

    agent = ChatAgent(Watching(["1", "1"], CHATML), sampling=Sampling(temperature=0.7), turn_tokens=9)
    talk = agent.begin(Task(), {})
    for seed in (5, 6):
        asyncio.run(talk.take("x", {}, env=None, seed=seed, session="s"))  # type: ignore[arg-type]
    stop = (CHATML.eos_token_id,)
    assert seen == [Sampling(0.7, 9, stop, 5), Sampling(0.7, 9, stop, 6)]


def test_a_prompt_that_fills_the_context_ends_the_episode() -> None:
    engine = ScriptedEngine(lambda prompt, turn: "<think></think><action>1</action>", CHATML)
    long = episode(ChatAgent(engine))
    third = long.turns[2]
    limit = len(third.prompt_ids)
    cut = episode(ChatAgent(engine, context_tokens=limit))
    assert cut.reason == "context" and cut.success is False and len(cut.turns) == 2
    one_more = episode(ChatAgent(engine, context_tokens=limit + 1))
    assert len(one_more.turns) == 3 and one_more.turns[2].finish == "length" and len(one_more.turns[2].output_ids) == 1


def test_the_engines_context_holds_whatever_is_asked() -> None:
    assert ChatAgent(ScriptedEngine([], CHATML, context=500), context_tokens=900).context_tokens == 500
    assert ChatAgent(ScriptedEngine([], CHATML, context=500), context_tokens=300).context_tokens == 300


def test_forks_are_independent() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    talk, _ = play(agent, [ids("look<|im_end|>")], LINES[:1])
    other = talk.fork()
    first = talk.prompt("A.", {})
    talk.reply(Completion(ids("x<|im_end|>"), [], "stop"))
    assert other.prompt("A.", {}) == first
    other.reply(Completion(ids("y<|im_end|>"), [], "stop"))
    assert talk.prompt("B.", {}) != other.prompt("B.", {})
    assert other.turns == talk.turns == 2 and other.history_ids[: len(first)] == first


# history="template"

THOUGHT = "<think>\nI wonder.\n</think>\n\n"


def rendered(messages: list[dict[str, str]]) -> list[int]:
    return ids(QWEN3.apply_chat_template(messages, tokenize=False, add_generation_prompt=True), QWEN3)


def test_template_keeps_thoughts_between_tool_results() -> None:
    agent = ChatAgent(ScriptedEngine([], QWEN3), prompt="bare", history="template")
    reply = ids(f"{THOUGHT}look<|im_end|>", QWEN3)
    talk, prompts = play(agent, [reply, reply])
    assert talk.rewrites == 0 and prompts[2][: len(prompts[1]) + len(reply)] == prompts[1] + reply


def as_user(agent: ChatAgent) -> ChatAgent:
    """Send observations back as the user's, where Qwen3 deletes earlier thoughts."""
    agent.template.role = "user"
    return agent


def test_template_that_rewrites_the_past_starts_a_new_row_and_counts_it() -> None:
    agent = as_user(ChatAgent(ScriptedEngine([], QWEN3), prompt="bare", history="template"))
    reply = ids(f"{THOUGHT}look<|im_end|>", QWEN3)
    talk, prompts = play(agent, [reply, reply])
    talk.reply(Completion(reply, [], "stop"))
    messages = [{"role": "user", "content": LINES[0]}]
    assert prompts[0] == rendered(messages)
    for observation, prompt in zip(LINES[1:], prompts[1:], strict=True):
        messages += [{"role": "assistant", "content": f"{THOUGHT}look"}, {"role": "user", "content": observation}]
        assert prompt == rendered(messages)
        assert QWEN3.decode(prompt).count("I wonder") == 0
    assert talk.rewrites == 2
    talk.prompt("x", {})
    assert talk.turn("x", Completion(reply, [], "stop")).extra == {"rewritten": True} and talk.rewrites == 3
    conversation = as_user(ChatAgent(ScriptedEngine([], QWEN3), prompt="bare"))
    talk, prompts = play(conversation, [reply, reply])
    assert talk.rewrites == 0 and QWEN3.decode(prompts[2]).count("I wonder") == 2


def test_template_history_keeps_tokens_where_the_past_stands() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), prompt="bare", history="template")
    letters = [*(i for letter in "desk 1" for i in ids(letter)), CHATML.eos_token_id]
    talk, prompts = play(agent, [letters, ids("cut")], finish="length")
    keep = ChatAgent(ScriptedEngine([], CHATML), prompt="bare")
    assert prompts == play(keep, [letters, ids("cut")], finish="length")[1] and talk.rewrites == 0


def test_rewritten_replies_let_no_control_token_in() -> None:
    agent = as_user(ChatAgent(ScriptedEngine([], QWEN3), prompt="bare", history="template"))
    spelled = list(agent.template.encoder.plain("say <|im_end|> and </think> aloud"))
    reply = [*ids(THOUGHT, QWEN3), *spelled, QWEN3.convert_tokens_to_ids("<|im_end|>")]
    _, prompts = play(agent, [reply], LINES[:2])
    assert "say <|im_end|> and </think> aloud" in QWEN3.decode(prompts[1])
    assert sum(i in agent.template.encoder.control_ids for i in prompts[1]) == 7  # four messages, of which three are closed


def test_forks_of_rendered_conversations_are_independent() -> None:
    agent = as_user(ChatAgent(ScriptedEngine([], QWEN3), prompt="bare", history="template"))
    talk, _ = play(agent, [ids(f"{THOUGHT}look<|im_end|>", QWEN3)], LINES[:1])
    talk.prompt("A.", {})
    other = talk.fork()
    talk.reply(Completion(ids("x<|im_end|>", QWEN3), [], "stop"))
    other.reply(Completion(ids("y<|im_end|>", QWEN3), [], "stop"))
    first, second = QWEN3.decode(talk.prompt("B.", {})), QWEN3.decode(other.prompt("C.", {}))
    assert "\nx<|im_end|>" in first and "\ny<|im_end|>" not in first and "B." in first
    assert "\ny<|im_end|>" in second and "\nx<|im_end|>" not in second and "C." in second


# Budgets


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab é🙂\n.1", min_size=60, max_size=600), st.integers(64, 200))
def test_a_long_observation_loses_its_middle(text: str, limit: int) -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), observation_tokens=limit)
    plain: Callable[[str], Sequence[int]] = agent.template.encoder.plain
    shorter = agent.cut(text)
    if len(plain(text)) <= limit:
        assert shorter == text
        return
    assert len(plain(shorter)) <= limit
    start, line, end = shorter.partition("\n[")[0], shorter, shorter.rpartition("]\n")[2]
    assert text.startswith(start) and text.endswith(end)
    assert f"of {len(plain(text))} tokens cut]" in line


def test_the_cut_keeps_as_much_as_fits() -> None:
    agent = ChatAgent(ScriptedEngine([], CHATML), observation_tokens=100)
    text = "".join(f"[{number}]" for number in range(400))
    length = len(agent.template.encoder.plain(agent.cut(text)))
    assert 95 <= length <= 100
    talk = agent.begin(Task(), {})
    assert f"of {len(agent.template.encoder.plain(text))} tokens cut]" in CHATML.decode(talk.prompt(text, {}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "kept"}, "Did you mean 'keep'"),
        ({"tools": "natively"}, "Did you mean 'native'"),
        ({"tools": "native", "tokenizer": QWEN3, "history": "template"}, "kept as sampled"),
        ({"tools": "native", "tokenizer": QWEN3, "prompt": "react"}, "'react' asks for a reply of the form 'tag'"),
        ({"tools": "native"}, "no place for tools"),
        ({"observation_tokens": 3}, "observation_tokens is 3; at least 64"),
        ({"turn_token": 9}, "no option of ChatAgent 'turn_token'. Did you mean 'turn_tokens'"),
        ({"histori": "keep"}, "Did you mean 'history'"),
        ({"turns": 2}, "no option of ChatAgent 'turns'"),
        ({"turn_tokens": 0}, "turn_tokens is 0"),
        ({"context_tokens": 0}, "context_tokens is 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        ChatAgent(ScriptedEngine([]), **options)


def test_an_engine_without_a_tokenizer_needs_one_given() -> None:
    class Bare:
        policy_version = 0

    with pytest.raises(BadConfig, match="Bare brings no tokenizer"):
        ChatAgent(Bare())  # type: ignore[arg-type]
    assert ChatAgent(Bare(), CHATML).context_tokens is None  # type: ignore[arg-type]
