"""Sessions of harnesses: budgets, calls beside the main conversation, the state that a request finds."""

import asyncio
import json
from typing import Any

import pytest
from native_talks import SOURCES, SURVEY

from agentgym.engines.scripted import ScriptedEngine
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.requests import Refusal, read_request
from agentgym.gateway.sessions import Budget

TOOL = {"type": "function", "function": {"name": "bash", "description": "", "parameters": {"type": "object"}}}


class Talk:
    """A client of one session of a gateway with a script for a model."""

    def __init__(self, **session: Any) -> None:
        engine = ScriptedEngine(lambda prompt, turn: "word " * 20, SURVEY.tokenizer_for(SOURCES["qwen2_5"]))
        self.gateway = Gateway(engine, "policy", temperature=1.0)
        self.session = self.gateway.sessions.get("attempt")
        for name, value in session.items():
            setattr(self.session, name, value)

    async def ask(self, *words: str, tools: bool = True, **options: Any) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(words)]
        raw = {"model": "policy", "messages": messages, **({"tools": [TOOL]} if tools else {}), **options}
        size = len(json.dumps(raw))
        answer = await self.gateway.answer(read_request(raw, chat=True, default_tokens=64, size=size), "attempt")
        return answer.choices[0].text


@pytest.mark.parametrize(
    ("budget", "allowed", "why"),
    [
        (Budget(turns=2), 2, "2 turns"),
        (Budget(tokens=100), 2, "100 tokens"),
        (Budget(cost=0.1, output_price=0.001), 2, r"0\.1 US dollars"),
        (Budget(cost=0.5, input_price=1.0), 1, r"0\.5 US dollars"),
    ],
)
def test_a_budget_that_is_used_up_refuses_the_next_request(budget: Budget, allowed: int, why: str) -> None:
    async def main() -> None:
        talk = Talk(budget=budget)
        for _ in range(allowed):
            assert not talk.session.used_up
            await talk.ask("Act.")
        with pytest.raises(Refusal, match=f"budget of this attempt is used up: {why}") as refused:
            await talk.ask("Act.")
        assert refused.value.status == 403 and talk.session.replies == allowed
        assert talk.session.used_up.startswith(why.replace("\\", ""))

    asyncio.run(main())


def test_requests_under_way_count_as_turns() -> None:
    async def main() -> None:
        talk = Talk(budget=Budget(turns=1))
        outcomes = await asyncio.gather(*(talk.ask("Act.") for _ in range(3)), return_exceptions=True)
        assert sum(isinstance(outcome, str) for outcome in outcomes) == 1

    asyncio.run(main())


def test_no_reply_is_longer_than_the_budget_says() -> None:
    async def main() -> None:
        talk = Talk(budget=Budget(turn_tokens=5))
        await talk.ask("Act.", max_tokens=50)
        assert talk.session.output_tokens == 5

    asyncio.run(main())


@pytest.mark.parametrize("trained", [True, False])
def test_side_calls_come_first_and_are_context_where_they_are_not_trained(trained: bool) -> None:
    """A title without tools, a sub-agent with others; a rewritten prompt goes on with the main conversation's."""

    async def main() -> Any:
        talk = Talk(side_calls=trained)
        first = await talk.ask("Do it.")
        await talk.ask("A title for it?", tools=False)
        await talk.ask("Do it.", first, "go on")
        await talk.ask("Shorter: do it.")
        await talk.ask("Another title?", tools=False)
        return talk.session.episode(1.0, True)

    episode = asyncio.run(main())
    texts = [str(turn.messages[-1]["content"]) for turn in episode.turns]
    assert texts == ["A title for it?", "Another title?", "Do it.", "go on", "Shorter: do it."]
    assert ["side" in turn.extra for turn in episode.turns] == [True, True, False, False, False]
    assert [turn.extra.get("train", True) for turn in episode.turns] == [trained, trained, True, True, True]
    assert episode.turns[-1].reward == 1.0 and episode.metrics["rows"] == 4 and episode.metrics["drifted_tokens"] == 0


def test_every_turn_has_the_state_that_its_request_found() -> None:
    keys = iter(["a", None, "b"])

    async def state() -> str | None:
        return next(keys)

    async def main() -> Any:
        talk = Talk(state=state)
        for word in ("one", "two", "three"):
            await talk.ask(word)
        return talk.session.episode(0.0, False)

    assert [turn.state_key for turn in asyncio.run(main()).turns] == ["a", None, "b"]
