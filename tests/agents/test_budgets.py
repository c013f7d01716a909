"""The budgets in tokens, with lengths counted by hand: a byte is a token, a control string too."""

import asyncio
from typing import Any

import pytest

from agentgym import ChatAgent, SummaryAgent, Task, Turn, WindowAgent
from agentgym.engines.scripted import ScriptedEngine

OPENING = 1 + 5 + 5 + 1 + 1 + 1 + 10  # <|im_start|> user\n hello <|im_end|> \n <|im_start|> assistant\n
REPLY = 3 + 1  # abc <|im_end|>
BRIDGE = 1 + OPENING  # \n, and a message of the same length


def turns(agent: Any, *observations: str) -> list[Turn]:
    talk = agent.begin(Task(), {})
    return [asyncio.run(talk.take(o, {}, env=None, seed=0, session="s")) for o in observations]


def agent(kind: Any = ChatAgent, replies: Any = lambda text, turn: "abc", **options: Any) -> Any:
    return kind(ScriptedEngine(replies), **{"prompt": "bare", **options})


@pytest.mark.parametrize(
    ("budget", "text", "finish", "length"), [(3, "abc", "length", 3), (4, "abc", "stop", 4), (2, "ab", "length", 2)]
)
def test_turn_tokens(budget: int, text: str, finish: str, length: int) -> None:
    (turn,) = turns(agent(turn_tokens=budget), "hello")
    assert (turn.text, turn.finish, len(turn.output_ids)) == (text, finish, length)


def test_observation_tokens() -> None:
    line = "\n[962 of 1000 tokens cut]\n"  # 26 bytes, so that 38 of 64 are left, half of them at either end
    assert len(line) == 26
    long = agent(observation_tokens=64)
    assert long.cut("a" * 500 + "b" * 500) == "a" * 19 + line + "b" * 19
    assert long.cut("a" * 64) == "a" * 64
    assert len(turns(long, "a" * 1000)[0].prompt_ids) == OPENING - 5 + 64
    window = agent(WindowAgent, observation_tokens=64, prompt="bare")
    assert len(turns(window, "a" * 1000)[0].prompt_ids) == OPENING - 5 + 64


def test_context_tokens() -> None:
    def two(context: int) -> list[tuple[int, int, str]]:
        found = turns(agent(context_tokens=context), "hello", "hello")
        return [(len(turn.prompt_ids), len(turn.output_ids), turn.finish) for turn in found]

    second = OPENING + REPLY + BRIDGE
    assert (OPENING, second) == (24, 53)
    assert two(53) == [(24, 4, "stop"), (53, 0, "context")]
    assert two(54) == [(24, 4, "stop"), (53, 1, "length")]
    assert two(57) == [(24, 4, "stop"), (53, 4, "stop")]
    assert two(24)[0] == (24, 0, "context")


def test_memory_tokens() -> None:
    for budget, notes in ((53, 0), (52, 1)):
        found = turns(agent(SummaryAgent, memory_tokens=budget), "hello", "hello")
        assert [len(turn.notes) for turn in found] == [0, notes]
    request = found[1].notes[0].messages[0]["content"]
    assert len(found[1].notes[0].prompt_ids) == OPENING + REPLY + BRIDGE - 5 + len(request)
