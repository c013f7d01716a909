"""The cost of harnesses' attempts: counted by tokens while they run, and no attempt begins past the limit."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from agentgym.cli import main
from agentgym.engines.scripted import ScriptedEngine
from agentgym.evaluate.spending import AttemptCosts, OverBudget, Price
from agentgym.harness.gateway_agent import Access, GatewayAgent
from agentgym.registry import make

PRICE = Price(input=2.0, output=10.0)
NUMBERS = "rlvr/GuessNumber-v0"


@dataclass
class Tokens:
    prompt_tokens: int = 0
    output_tokens: int = 0


def test_running_attempts_count() -> None:
    """100,000 prompt tokens at 2 and 30,000 sampled at 10 US dollars for a million: 0.2 + 0.3, on top of 1."""
    costs, attempt = AttemptCosts(PRICE, most=1.5, before=1.0), Tokens()
    asyncio.run(costs.admit(attempt, running=()))
    assert costs.spent == 1.0
    attempt.prompt_tokens, attempt.output_tokens = 100_000, 30_000
    assert costs.spent == pytest.approx(1.5)
    with pytest.raises(OverBudget, match=r"\$1.5000 of --max-cost 1.5 are spent"):
        asyncio.run(costs.admit(Tokens(), running=()))


def asking(_: Any, access: Access) -> float:
    """Play an attempt: ask the model twice."""
    import json
    import urllib.request

    for _again in range(2):
        body = {"model": access.model, "messages": [{"role": "user", "content": "which number?"}]}
        headers = {"Authorization": f"Bearer {access.api_key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{access.base_url}/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            json.load(answer)
    return 1.0


@pytest.mark.parametrize(("concurrency", "most", "stored"), [(1, 1e-9, 1), (3, 1e-9, 3), (1, 1e9, 5), (5, 1e9, 5)])
def test_no_attempt_begins_past_the_limit_and_running_ones_are_stored(concurrency: int, most: float, stored: int) -> None:
    engine = ScriptedEngine(lambda prompt, turn: "7")
    costs, episodes = AttemptCosts(PRICE, most), list[Any]()
    agent = GatewayAgent(asking, engine, engine.tokenizer, costs=costs)
    with make(NUMBERS) as env:
        tasks = env.unwrapped.tasks(5)  # type: ignore[attr-defined]
    played = agent.collect(NUMBERS, tasks=tasks, concurrency=concurrency, ended=episodes.append)
    if stored < 5:
        with pytest.raises(OverBudget, match="--max-cost"):
            asyncio.run(played)
    else:
        assert len(asyncio.run(played)) == 5
    assert len(episodes) == stored and all(len(episode.turns) == 2 and episode.success for episode in episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    by_hand = sum(2.0 * len(turn.prompt_ids) + 10.0 * len(turn.output_ids) for turn in turns) / 1e6
    assert costs.spent == pytest.approx(by_hand) and by_hand > 0


def test_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["eval", "terminal", "--agent", "harness:codex", "--model", "runs/none", "--plan", "--max-cost", "1"]
    assert main(flags) == 2 and "names no price: give one with --prices FILE" in capsys.readouterr().err
    prices = tmp_path / "prices.toml"
    prices.write_text('["runs/none"]\ninput = 2\noutput = 10\n')
    assert main([*flags, "--prices", str(prices), "--tasks", "3"]) == 0
    output = capsys.readouterr().out
    assert "3 episodes, as many turns as the harness takes" in output and "$" not in output
    assert main([*flags, "--prices", str(prices), "--tasks", "3", "--attempt-turns", "4", "--turn-tokens", "100"]) == 0
    output = " ".join(capsys.readouterr().out.split())  # 3 x 4 x 100 tokens at 10 US dollars for a million
    assert "at most 4 turns each" in output and "12 requests and 1,200 output tokens, $0.01 for these" in output
