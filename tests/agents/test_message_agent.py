"""The agent over chat messages: what it asks, what it remembers, and that nothing trains on it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import agentgym
from agentgym import BadConfig, BadData, ChatAgent, Completion, MessageAgent, Sampling, Task, WindowAgent
from agentgym.engines.scripted import ScriptedEngine
from agentgym.episodes.usage import Usage
from agentgym.trainers.data.segments import build

INFO = {"admissible": ["look", "go north"]}


class Chat:
    """A chat engine that says what it is told to, and keeps what it was asked."""

    def __init__(self, replies: Sequence[Completion]) -> None:
        self.replies, self.requests = list(replies), list[Any]()

    async def chat(self, messages: Any, tools: Any, sampling: Sampling, session: str) -> Completion:
        self.requests.append((list(messages), sampling.seed, session))
        return self.replies.pop(0)

    def abort(self, session: str) -> None: ...

    def close(self) -> None: ...


def answered(text: str, finish: str = "stop", usage: Usage | None = None) -> Completion:
    return Completion([], [], finish, text=text, usage=usage)


def play(agent: MessageAgent, turns: int, talk: Any = None) -> list[agentgym.Turn]:
    talk = talk or agent.begin(Task(instruction="find the cup"), {})

    async def run() -> list[agentgym.Turn]:
        return [
            await talk.take(f"room {k}", INFO, env=None, seed=k, session="s")  # type: ignore[arg-type]
            for k in range(turns)
        ]

    return asyncio.run(run())


def test_the_history_is_the_messages_and_an_empty_reply_is_not_sent_empty() -> None:
    chat = Chat(
        [
            answered("<think>a</think><action>look</action>", usage=Usage(7, 5)),
            answered(" \n"),
            answered("<action>go north</action>"),
        ]
    )
    turns = play(MessageAgent(chat), 3)
    messages, seed, session = chat.requests[2]
    assert [(m["role"], m["content"]) for m in messages[1:]] == [
        ("user", "room 0"),
        ("assistant", "<think>a</think><action>look</action>"),
        ("user", "room 1"),
        ("assistant", "(no reply)"),
        ("user", "room 2"),
    ]
    assert messages[0]["role"] == "system" and (seed, session) == (2, "s")
    assert [turn.action for turn in turns] == ["look", "", "go north"]
    assert [turn.parsed for turn in turns] == [True, False, False]  # react demands a thought
    assert turns[0].extra == {"prompt_tokens": 7, "completion_tokens": 5} and turns[1].extra == {}
    assert turns[2].messages == [{"role": "user", "content": "room 2"}]
    assert not any(turn.prompt_ids or turn.output_ids or turn.logprobs for turn in turns)


def test_with_a_window_it_asks_word_for_word_what_the_window_agent_asks() -> None:
    reply = "<think>t</think><action>look</action>"
    chat = Chat([answered(reply)] * 4)
    play(MessageAgent(chat, window=2), 4)
    engine = ScriptedEngine([reply] * 4)
    agent, prompts = WindowAgent(engine), list[Any]()
    talk = agent.begin(Task(instruction="find the cup"), {})
    for k in range(4):
        prompts.append((talk.prompt(f"room {k}", INFO), talk.messages)[1])
        talk.reply(Completion([*engine.tokenizer.encode(reply), 258], [], "stop"))
    assert [messages for messages, _, _ in chat.requests] == prompts


def test_a_fork_shares_nothing_that_changes() -> None:
    chat = Chat([answered("one"), answered("two"), answered("three")])
    talk = MessageAgent(chat, prompt="bare").begin(Task(), {})
    play(talk.agent, 1, talk)
    other = talk.fork()
    play(talk.agent, 1, talk)
    assert len(other.messages) == 2 and len(talk.messages) == 4


def test_a_long_observation_loses_its_middle() -> None:
    chat = Chat([answered("x")])
    agent = MessageAgent(chat, prompt="bare", observation_characters=300)
    text = agent.cut("a" * 200 + "b" * 200 + "c" * 200)
    assert len(text) <= 300 and text.startswith("aaa") and text.endswith("ccc") and "[364 of 600 characters cut]" in text
    assert agent.cut("a" * 300) == "a" * 300


def test_a_context_that_is_full_ends_the_episode_as_the_models_failure() -> None:
    chat = Chat([answered("7"), answered("", "context")])
    (episode,) = agentgym.collect(MessageAgent(chat, prompt="bare"), "rlvr/GuessNumber-v0", tasks=1)
    assert (episode.reason, episode.success, len(episode.turns)) == ("context", False, 1)


def test_training_refuses_turns_without_tokens() -> None:
    chat = Chat([answered("7")] * 20)
    episodes = agentgym.collect(MessageAgent(chat, prompt="bare"), "rlvr/GuessNumber-v0", tasks=1)
    with pytest.raises(BadData, match=r"turn 0 has text but no token ids: it came from an engine without token access"):
        build(episodes)


def test_an_empty_reply_is_refused_by_training_too() -> None:
    chat = Chat([answered("")] * 20)
    episodes = agentgym.collect(MessageAgent(chat, prompt="bare"), "rlvr/GuessNumber-v0", tasks=1)
    with pytest.raises(BadData, match="no token ids"):
        build(episodes)


def test_agents_over_tokens_refuse_the_engine() -> None:
    with pytest.raises(BadConfig, match="MessageAgent"):
        ChatAgent(agentgym.engine("chat:http://127.0.0.1:1/v1#m"))


@pytest.mark.parametrize("options", [{"turn_tokens": 0}, {"window": -1}, {"observation_characters": 10}])
def test_bad_options(options: dict[str, int]) -> None:
    with pytest.raises(BadConfig, match="expected at least"):
        MessageAgent(Chat([]), **options)  # type: ignore[arg-type]
