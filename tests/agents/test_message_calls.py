"""Tool calls over chat messages: what is sent, what goes to the environment, what comes back, whatever the model says."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, Completion, MessageAgent, Sampling, Task
from agentgym.agents.native import NOT_EXECUTED
from agentgym.core.actions import Call, parse_call
from agentgym.engines import ToolCall
from agentgym.engines.openai.answers import MOST_CALLS, read_completion
from agentgym.episodes.usage import Usage
from agentgym.trainers.data.conversations import conversations


class Chat:
    """A chat engine that says what it is told to, and keeps what it was asked."""

    def __init__(self, replies: Sequence[Completion]) -> None:
        self.replies, self.requests, self.offers = list(replies), list[Any](), list[Any]()

    async def chat(self, messages: Any, tools: Any, sampling: Sampling, session: str) -> Completion:
        self.requests.append([dict(message) for message in messages])
        self.offers.append(list(tools))
        return self.replies.pop(0) if self.replies else Completion([], [], "stop", text="…")

    def abort(self, session: str) -> None: ...

    def close(self) -> None: ...


def answered(*calls: tuple[str, Any] | ToolCall, text: str = "") -> Completion:
    """Return a reply with calls; arguments that are no string are written as JSON."""
    contents = [
        call
        if isinstance(call, ToolCall)
        else ToolCall(f"id-{n}", call[0], call[1] if isinstance(call[1], str) else json.dumps(call[1]))
        for n, call in enumerate(calls)
    ]
    return Completion([], [], "stop", text=text, usage=Usage(7, 5), calls=contents)


def play(chat: Chat, env: str = "rlvr/SQL-v0", **options: Any) -> agentgym.Episode:
    (episode,) = agentgym.collect(MessageAgent(chat, **options), env, tasks=1, horizon=6)
    return episode


def test_calls_go_to_the_environment_in_order_and_results_come_back_with_their_ids() -> None:
    chat = Chat(
        [
            answered(("schema", {}), ("query", {"sql": "SELECT 1"}), text="Let me see."),
            answered(("query", {"sql": "SELECT 2"})),
            answered(("answer", {"sql": "SELECT 3"})),
        ]
    )
    episode = play(chat)
    assert [json.loads(turn.action)["name"] for turn in episode.turns] == ["schema", "query", "query", "answer"]
    assert all(turn.parsed and turn.valid for turn in episode.turns) and episode.reason == "failure"
    assert [turn.extra for turn in episode.turns[:2]] == [
        {"prompt_tokens": 7, "completion_tokens": 5, "call": 0},
        {"call": 1},
    ]
    talk = conversations(episode, agentgym.make("sql").tools)[0]
    assert [len(message["tool_calls"]) for message in talk if "tool_calls" in message] == [2, 1, 1]
    assert [message["role"] for message in talk[1:]] == [
        "user",
        "assistant",
        *["tool"] * 2,
        *["assistant", "tool"],
        "assistant",
    ]
    assert [turn.text for turn in episode.turns] == ["Let me see.", "", "", ""]
    assert [tool["function"]["name"] for tool in chat.offers[0]] == ["schema", "query", "answer"]
    first, second, third = chat.requests
    assert [message["role"] for message in first] == ["system", "user"]
    assert second[: len(first)] == first
    reply, one, two = second[len(first) :]
    assert reply["content"] == "Let me see." and [call["id"] for call in reply["tool_calls"]] == ["id-0", "id-1"]
    assert reply["tool_calls"][1] == {
        "id": "id-1",
        "type": "function",
        "function": {"name": "query", "arguments": '{"sql": "SELECT 1"}'},
    }
    assert (one["role"], one["tool_call_id"], two["tool_call_id"]) == ("tool", "id-0", "id-1")
    assert one["content"] == episode.turns[1].observation and two["content"] == episode.turns[2].observation
    assert third[: len(second)] == second and third[len(second)]["content"] is None
    assert episode.turns[1].messages == [one] and episode.turns[2].messages == [two]


def test_after_a_call_that_is_not_accepted_the_others_are_answered_not_executed() -> None:
    chat = Chat(
        [
            answered(("query", {"sql": 7}), ("query", {"sql": "SELECT 1"}), ("schema", {})),
            answered(("answer", {"sql": "SELECT 3"})),
        ]
    )
    episode = play(chat)
    assert [turn.valid for turn in episode.turns][:2] == [False, True] and len(episode.turns) == 2
    assert not episode.turns[0].parsed and episode.turns[1].parsed
    results = [message for message in chat.requests[1] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["id-0", "id-1", "id-2"]
    assert [message["content"] for message in results[1:]] == [NOT_EXECUTED] * 2
    example = '{"name": "query", "arguments": {"sql": "…"}}'
    assert f"argument 'sql' of query must be of type string. Write {example}." in results[0]["content"]


def test_a_reply_without_a_call_goes_to_the_environment_as_text_and_a_call_written_as_text_is_one() -> None:
    chat = Chat([answered(text="I think so."), answered(text="query[SELECT 1]"), answered(("answer", {"sql": "SELECT 3"}))])
    episode = play(chat)
    assert [(turn.parsed, turn.valid) for turn in episode.turns] == [(False, False), (True, True), (True, True)]
    assert (
        chat.requests[1][-1]["role"] == "user" and '{"name": "schema", "arguments": {}}' in chat.requests[1][-1]["content"]
    )
    assert chat.requests[2][-2] == {"role": "assistant", "content": "query[SELECT 1]"}


def test_an_environment_of_commands_is_offered_as_one_tool_where_native_calls_are_asked_for() -> None:
    chat = Chat([answered(("act", {"command": "7"}))])
    (episode,) = agentgym.collect(MessageAgent(chat, tools="native"), "rlvr/GuessNumber-v0", tasks=1, horizon=1)
    assert episode.turns[0].action == "7" and episode.turns[0].parsed and chat.offers[0][0]["function"]["name"] == "act"
    chat = Chat([])
    agentgym.collect(MessageAgent(chat), "rlvr/GuessNumber-v0", tasks=1, horizon=1)
    assert chat.offers == [[]]


HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["{", "[1]", "null", '{"sql": NaN}', "[" * 50_000, '{"sql": "\\ud800"}', '{}, "name": "answer"', "{}}"]),
)


@given(st.lists(st.tuples(st.text(max_size=10), st.one_of(st.just("query"), st.text(max_size=80)), HOSTILE), max_size=4))
def test_whatever_the_model_calls_is_its_failure_and_is_sent_back_in_a_form_that_servers_take(calls: Any) -> None:
    chat = Chat([answered(*(ToolCall(*call) for call in calls), text="")])
    env = agentgym.make("rlvr/SQL-v0")
    observation, info = env.reset(seed=1)
    talk = MessageAgent(chat).begin(env.task, env.tools)

    async def turns() -> None:
        nonlocal observation, info
        for k in range(len(calls) + 1):
            turn = await talk.take(observation, info, env=env, seed=k, session="s")
            if len(chat.requests) == 2 or not env._running:
                return
            assert isinstance(turn.action, str)
            observation, _, _, _, info = env.step(turn.action)

    asyncio.run(turns())
    if len(chat.requests) < 2:
        return
    sent = json.loads(json.dumps(chat.requests[1], allow_nan=False))
    reply = next(message for message in sent if message["role"] == "assistant")
    ids = [call["id"] for call in reply.get("tool_calls", [])]
    assert len(set(ids)) == len(ids) == len(calls)
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids
    for call in reply.get("tool_calls", []):
        assert call["id"] and set(call["function"]) == {"name", "arguments"}
        assert call["function"]["name"].replace("_", "").replace("-", "").isascii() and call["function"]["name"]
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_a_call_in_two_parts_is_read_as_what_it_is() -> None:
    env = agentgym.make("rlvr/SQL-v0")
    talk = MessageAgent(Chat([])).begin(Task(), env.tools)
    good = talk._act(ToolCall("a", "query", ' {"sql": "SELECT \\"x\\""} '))  # type: ignore[attr-defined]
    assert good[1] and parse_call(good[0], env.tools) == Call("query", {"sql": 'SELECT "x"'})
    for arguments in ('{"sql": "cut', "[]", '{"sql": "a"} {"sql": "b"}'):
        action, parsed = talk._act(ToolCall("a", "query", arguments))  # type: ignore[attr-defined]
        assert not parsed and isinstance(parse_call(action, env.tools), str)


def test_a_fork_goes_on_alone_between_two_calls_of_a_reply() -> None:
    chat = Chat([answered(("schema", {}), ("query", {"sql": "SELECT 1"}))])
    env = agentgym.make("rlvr/SQL-v0")
    observation, info = env.reset(seed=1)
    talk = MessageAgent(chat).begin(env.task, env.tools)

    async def take(which: Any) -> agentgym.Turn:
        return await which.take(observation, info, env=env, seed=0, session="s")

    asyncio.run(take(talk))
    other = talk.fork()
    assert asyncio.run(take(talk)).action == asyncio.run(take(other)).action
    asyncio.run(take(other))
    assert len(chat.requests) == 2 and len(other.messages) == len(talk.messages) + 2  # the last result, and the next reply


def answer(*calls: Any, content: Any = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def test_what_a_server_tells_of_calls() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "query", "arguments": '{"sql": "x"}'}}
    assert read_completion(answer(call)).calls == [ToolCall("c1", "query", '{"sql": "x"}')]
    bare = {"function": {"name": "schema", "arguments": None}}
    parts = {"function": {"name": "query", "arguments": {"sql": "x"}}}
    assert read_completion(answer(bare, parts)).calls == [
        ToolCall("", "schema", "{}"),
        ToolCall("", "query", '{"sql": "x"}'),
    ]
    assert len(read_completion(answer(*[call] * 10_000)).calls) == MOST_CALLS
    assert read_completion(answer(content="hi")).calls == [] and read_completion(answer(content="hi")).text == "hi"
    for odd in (7, {"function": {"name": 7, "arguments": "{}"}}, {"function": {"name": "x", "arguments": 7}}, {}):
        with pytest.raises(ValueError, match="expected tool calls"):
            read_completion(answer(odd))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": "natve"}, "Did you mean 'native'"),
        ({"tools": "hermes"}, "no way to call tools over plain chat"),
        ({"tools": "native", "window": 2}, "native tool calls need the whole history"),
        ({"tools": "native", "prompt": "react"}, r"need the whole history and a prompt with \[reply\] call"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        MessageAgent(Chat([]), **options)
