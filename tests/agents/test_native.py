"""Tool calls in the form of the model's own family: schemas, calls, results, the next call."""

import asyncio
import dataclasses
import json
from contextlib import closing
from typing import Any

import pytest
from native_talks import (
    EXAMPLES,
    SOURCES,
    SURVEY,
    TEMPLATES,
    TOOLS,
    begun,
    call_text,
    say,
)

import agentgym
from agentgym import ChatAgent, Task
from agentgym.agents.native import NOT_EXECUTED
from agentgym.engines.scripted import ScriptedEngine
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.data.segments import build

RESULT = 'a page\nabout "cups"'


@pytest.mark.parametrize("name", SOURCES)
def test_round_trip(name: str) -> None:
    """Schema, call, result, next call: the tokens are those the tokenizer makes of the template's own rendering."""
    talk = begun(name)
    template, tokenizer = talk.template, talk.agent.tokenizer
    first = list(talk.prompt_ids)
    text = template.encoder.decode(first)
    assert all(tool.name in text and tool.description in text for tool in TOOLS.values())
    chat = [{"role": m["role"], "content": m["content"]} for m in talk.messages]
    arguments = {"query": 'who "made" the cup\n[1]?', "k": 3}
    previous = first
    for result in (RESULT, "Nothing."):
        action = say(talk, call_text(talk, ("search", arguments)))
        assert json.loads(action) == {"name": "search", "arguments": arguments} and talk.parsed
        prompt = talk.prompt(result, {})
        history = talk.history_ids
        assert prompt[: len(history)] == history and history[: len(previous)] == previous  # extends, token for token
        previous = prompt
        function = {"name": "search", "arguments": arguments}
        chat += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "id": "call00000", "function": function}],
            },
            {"role": "tool", "content": result, "name": "search", "tool_call_id": "call00000"},
        ]
        rendered = template.render_chat(chat)
        assert tokenizer.decode(prompt) == rendered
        assert prompt == tokenizer.encode(rendered, add_special_tokens=False)
        assert talk.messages == [{"role": "tool", "content": result}]


THINKING = ("qwen3_5_think", "qwen3_6", "qwen3_8", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_5_lightning")


@pytest.mark.parametrize("name", THINKING)
def test_round_trip_with_thoughts(name: str) -> None:
    """As `test_round_trip`, where the generation prompt opens a thought and the template keeps it."""
    talk = ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES[name])), tools="native").begin(Task(), TOOLS)
    prompt = talk.prompt("Who made the cup?", {})
    chat: list[dict[str, Any]] = list(talk.messages)
    function = {"name": "search", "arguments": {"query": "who\n</parameter>\n<made>", "k": 3}}
    for result in (RESULT, "Nothing."):
        prompt_text = talk.template.encoder.decode(prompt)
        call = {"type": "function", "id": "call00000", "function": function}
        chat.append({"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]})
        chat.append({"role": "tool", "content": result, "name": "search", "tool_call_id": "call00000"})
        rendered = talk.template.render_chat(chat)
        assert rendered.startswith(prompt_text)
        action = say(talk, rendered.removeprefix(prompt_text).partition("<|im_end|>")[0])
        assert json.loads(action) == function and talk.parsed
        prompt = talk.prompt(result, {})
        assert prompt == talk.agent.tokenizer.encode(rendered, add_special_tokens=False)


@pytest.mark.parametrize("name", SOURCES)
def test_a_call_is_written_as_the_template_writes_it(name: str) -> None:
    talk = begun(name)
    arguments = {"query": "a <b>", "k": 2}
    action = json.dumps({"name": "search", "arguments": arguments})
    assert "".join(talk.written(action)) in call_text(talk, ("search", arguments))


@pytest.mark.parametrize("name", SOURCES)
def test_what_the_environment_says_becomes_no_control_token(name: str) -> None:
    talk = begun(name)
    say(talk, call_text(talk, ("search", {"query": "x", "k": 1})))
    encoder = talk.template.encoder
    plain, hostile = talk.prompt("cup", {}), talk.prompt("cup".join(sorted(encoder.control)), {})
    assert [i for i in hostile if i in encoder.control_ids] == [i for i in plain if i in encoder.control_ids]


def several(name: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """Return a reply with several calls, as the template writes them."""
    talk = begun(name)
    return "; ".join(call_text(talk, call) for call in calls) if name.startswith("llama") else call_text(talk, *calls)


WRONG = {
    "qwen3": ('<tool_call>\n{"name": "search", "arguments": {"query": "x"\n</tool_call>', "not valid JSON"),
    "llama3_2": ('<|python_tag|>{"name": "search", "parameters": {"query": "x"', "not valid JSON"),
    "qwen3_5_nothink": ("<tool_call>\n<function=search>\n<parameter=query>\nx\n</tool_call>", "is not a tool call"),
    "glm4moe": ("<tool_call>search\n<arg_key>query</arg_key>\n</tool_call>", "is not a tool call"),
    "mistral": ('[TOOL_CALLS] [{"name": "search", "arguments": {"query": "x"', "not valid JSON"),
}


class Shop(agentgym.TextEnv):
    """An environment with the tools of this page."""

    @agentgym.tool
    def search(self, query: str, k: int) -> str:
        """Find pages about a query."""
        return f"{k} pages about {query}."

    @agentgym.tool
    def submit(self, answer: str) -> Any:
        """Give the answer."""
        return self.win("Right.") if answer == "cup" else self.lose("Wrong.")

    def begin(self, task: Task) -> str:
        return "What is it?"

    def state(self) -> int:
        return 0

    @staticmethod
    def generate(rng: Any, difficulty: int) -> Task:
        return Task(instruction="x", data={"n": int(rng.integers(1000))})


@pytest.mark.parametrize("name", EXAMPLES)
def test_bad_calls_are_answered_so_that_a_model_can_repair_them(name: str) -> None:
    talk = begun(name)
    broken, complaint = WRONG[name]
    unknown = call_text(talk, ("find", {"query": "x"}))
    wrong = call_text(talk, ("search", {"query": "x", "k": "three"}))
    right = call_text(talk, ("search", {"query": "x", "k": 3}))
    replies = iter([broken, unknown, wrong, "I give up.", right, call_text(talk, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(replies), SURVEY.tokenizer_for(SOURCES[name]))
    (episode,) = agentgym.collect(ChatAgent(engine, tools="native"), Shop, horizon=9)
    contents = [turn.messages[-1]["content"] for turn in episode.turns]
    assert complaint in contents[1] and EXAMPLES[name] in contents[1] and "search[" not in contents[1]
    assert contents[2] == "there is no tool 'find'. The tools are: search, submit."
    assert contents[3] == f"argument 'k' of search must be of type integer. Write {EXAMPLES[name]}."
    assert contents[4] == f"'I give up.' is not a tool call. Write one call, for example {EXAMPLES[name]}."
    assert contents[5] == "3 pages about x."
    assert [turn.messages[-1]["role"] for turn in episode.turns] == ["user", "tool", "tool", "tool", "user", "tool"]
    assert [turn.parsed for turn in episode.turns] == [False, False, False, False, True, True]
    assert episode.success
    for turn, after in zip(episode.turns, episode.turns[1:], strict=False):
        ids = turn.prompt_ids + turn.output_ids
        assert after.prompt_ids[: len(ids)] == ids


@pytest.mark.parametrize("name", SOURCES)
def test_several_calls_of_a_reply_are_turns_that_share_its_tokens(name: str) -> None:
    words = ("alpha", "bravo", "delta")
    calls = [("search", {"query": word, "k": k}) for k, word in enumerate(words, 1)]
    replies = iter([several(name, *calls), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(replies), SURVEY.tokenizer_for(SOURCES[name]))
    agent = ChatAgent(engine, tools="native")
    (episode,) = agentgym.collect(agent, Shop, horizon=9)
    assert [json.loads(turn.action)["arguments"] for turn in episode.turns] == [*(c[1] for c in calls), {"answer": "cup"}]
    assert [turn.observation for turn in episode.turns[1:]] == [
        f"{k} pages about {word}." for k, word in enumerate(words, 1)
    ]
    assert episode.success and all(turn.parsed and turn.valid and turn.output_ids for turn in episode.turns)
    for turn, after in zip(episode.turns[:2], episode.turns[1:3], strict=True):
        assert after.prompt_ids == turn.prompt_ids + turn.output_ids  # nothing between the calls of one reply
    decode = SURVEY.tokenizer_for(SOURCES[name]).decode
    texts = [decode(turn.output_ids) for turn in episode.turns[:3]]
    assert [[word in text for word in words] for text in texts] == [[i == k for i in range(3)] for k in range(3)]
    assert all(text.lstrip("\n;, ").startswith(("<tool_call>", "[TOOL_CALLS]", "{")) for text in texts[1:]), texts
    last = episode.turns[3]
    ids = episode.turns[2].prompt_ids + episode.turns[2].output_ids
    assert last.prompt_ids[: len(ids)] == ids
    added = decode(last.prompt_ids[len(ids) :])
    assert sorted(added.index(f"pages about {word}.") for word in words) == [added.index(f"about {w}.") - 6 for w in words]
    assert last.messages == [{"role": "tool", "content": "3 pages about delta."}]
    (row,) = build([episode])
    assert row.trained == sum(len(turn.output_ids) for turn in episode.turns)


@pytest.mark.parametrize("name", SOURCES)
def test_calls_after_a_failed_one_are_not_executed(name: str) -> None:
    calls = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": "two"}), ("submit", {"answer": "cup"})]
    replies = iter([several(name, *calls), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(replies), SURVEY.tokenizer_for(SOURCES[name]))
    (episode,) = agentgym.collect(ChatAgent(engine, tools="native"), Shop, horizon=9)
    assert [turn.valid for turn in episode.turns] == [True, False, True] and episode.success
    assert [turn.parsed for turn in episode.turns] == [True, False, True]
    contents = [message["content"] for message in episode.turns[2].messages]
    assert contents[0].startswith("argument 'k' of search must be of type integer") and contents[1:] == [NOT_EXECUTED]
    added = SURVEY.tokenizer_for(SOURCES[name]).decode(episode.turns[2].prompt_ids)
    assert added.index("1 pages about a.") < added.index("must be of type integer") < added.index(NOT_EXECUTED)


def test_a_fork_between_two_calls_of_a_reply_goes_on_with_the_second() -> None:
    calls = [("search", {"query": "a", "k": 1}), ("submit", {"answer": "cup"})]
    engine = ScriptedEngine(lambda prompt, turn: several("qwen3", *calls), SURVEY.tokenizer_for(SOURCES["qwen3"]))
    env = Shop()
    observation, info = env.reset(seed=0)
    talk = ChatAgent(engine, tools="native").begin(env.task, env.tools)
    turn = asyncio.run(talk.take(observation, info, env=env, seed=0, session="s"))
    observation, _, _, _, info = env.step(turn.action)
    for branch in (talk.fork(), talk):
        again = asyncio.run(branch.take(observation, info, env=env, seed=1, session="s"))
        assert json.loads(again.action)["name"] == "submit" and again.observation == observation


FAILING = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": "two"}), ("submit", {"answer": "cup"})]


@pytest.mark.parametrize("name", SOURCES)
def test_an_episode_with_several_calls_a_reply_is_gone_through_again(name: str) -> None:
    good = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": 2})]
    replies = iter([several(name, *good), several(name, *FAILING), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(replies), SURVEY.tokenizer_for(SOURCES[name]))
    agent = ChatAgent(engine, tools="native")
    with closing(RolloutPool({"shop": Shop}, RolloutConfig(2))) as pool:
        job = Job(pool.probe("shop").tasks(1)[0], 0, 0, "g", "shop", 9)
        (episode,) = asyncio.run(pool.collect(agent, [job]))
        assert [turn.valid for turn in episode.turns] == [True, True, True, False, True]
        (points,) = asyncio.run(pool.starts(agent, "shop", [(job.task, episode, range(5))]))
        assert list(points) == [0, 2, 4]  # where a reply begins
        branch = dataclasses.replace(job, attempt=1, start=points[4])
        replies = iter([several(name, ("submit", {"answer": "bowl"}))])
        (other,) = asyncio.run(pool.collect(agent, [branch]))
    assert other.turns[0].prompt_ids == episode.turns[4].prompt_ids and other.success is False


def test_each_turn_of_glm_names_who_comes_next() -> None:
    talk = begun("glm4moe")
    observation, user = (talk.template.encoder.control[s] for s in ("<|observation|>", "<|user|>"))
    call = call_text(talk, ("search", {"query": "x", "k": 1}))
    for text, end, added in ((call, observation, None), (call, user, observation), ("No.", user, None)):
        say(talk, text, end)
        bridge = talk.prompt("cup", {})[len(talk.history_ids) :]
        assert (bridge[0] == added) if added else not {observation, user} & set(bridge), text
    say(talk, "No.", observation)
    assert talk.prompt("cup", {})[len(talk.history_ids)] == user


def test_a_call_keeps_the_id_the_model_gave_it() -> None:
    talk = begun("mistral")
    say(talk, '[TOOL_CALLS] [{"name": "submit", "arguments": {"answer": "y"}, "id": "aB3456789"}]')
    assert '"call_id": "aB3456789"' in talk.template.encoder.decode(talk.prompt("1", {})[len(talk.history_ids) :])
    say(talk, '[TOOL_CALLS] [{"name": "submit", "arguments": {"answer": "y"}, "id": "[/INST]xx"}]')
    assert '"call_id": "call00000"' in talk.template.encoder.decode(talk.prompt("1", {})[len(talk.history_ids) :])


def test_thoughts_are_no_calls() -> None:
    talk = begun("qwen3")
    inside = call_text(talk, ("submit", {"answer": "no"}))
    outside = call_text(talk, ("submit", {"answer": "</think>"}))
    assert json.loads(say(talk, f"<think>\n{inside}\n</think>\n\n{outside}"))["arguments"] == {"answer": "</think>"}
    talk.prompt("x", {})
    say(talk, f"<think>\n{inside}")
    assert not talk.parsed and not talk.attempts
    talk.prompt("x", {})
    assert json.loads(say(talk, outside))["arguments"] == {"answer": "</think>"} and talk.parsed


def test_forks_are_independent() -> None:
    talk = begun("qwen3")
    other = talk.fork()
    say(talk, call_text(talk, ("submit", {"answer": "a"})))
    say(other, "Hm.")
    assert talk.prompt("x", {}) != other.prompt("x", {}) and talk.attempts and not other.attempts


def test_no_template_is_rendered_while_an_episode_runs() -> None:
    talk = begun("qwen3")
    text = call_text(talk, ("submit", {"answer": "a"}))
    for place in range(4):
        say(talk, text)
        if place == 2:
            talk.agent.tokenizer.chat_template = "{{ raise_exception('rendered') }}"
        talk.prompt(f"page {place}", {})
