"""Tokens, money and seconds of an evaluation; evaluations that are extended; what is said before anything is played."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")
import loopback

from agentgym.cli import main
from agentgym.episodes.episode import Episode, Turn, read_episodes
from agentgym.episodes.usage import Usage
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate.choice import EvaluationPlan
from agentgym.evaluate.run import missing_tasks
from agentgym.evaluate.spending import Price, cost_of, price_of, read_prices, spending

COUNTED = {"prompt_tokens": 1000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 600}}
PRICE = Price(input=2.0, output=10.0, cached=0.5)


def reply(usage: Any = COUNTED) -> dict[str, Any]:
    message = {"role": "assistant", "content": "7"}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


def evaluation(url: str, out: Path, *flags: str) -> list[str]:
    return ["eval", "guessnumber", "--model", f"chat:{url}#m", "--tasks", "2", "--horizon", "3", "--out", str(out), *flags]


def table(folder: Path, text: str = '["m"]\ninput = 2\noutput = 10\ncached = 0.5\n') -> str:
    path = folder / "prices.toml"
    path.write_text(text)
    return str(path)


def summary_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "summary.json").read_text())


def test_a_price_by_hand() -> None:
    """400 fresh at 2, 600 cached at 0.5 and 200 out at 10 for a million: 0.0008 + 0.0003 + 0.002."""
    usage = Usage(1000, 200, cached=600)
    assert PRICE.of(usage) == pytest.approx(0.0031)
    assert Price(2.0, 10.0, written=4.0).of(Usage(1000, 0, written=500)) == pytest.approx(0.003)
    assert cost_of(Usage(1, 1, cost=0.25), PRICE) == 0.25 and cost_of(usage, None) is None


def test_the_summary_says_tokens_price_and_latency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", "--prices", table(tmp_path))) == 0
    asked, summary = server.asked, summary_of(tmp_path / "e")
    assert summary["usage"] == {
        "input": 1000 * asked,
        "output": 200 * asked,
        "cached": 600 * asked,
        "written": 0,
        "reasoning": 0,
    }
    won = sum(episode.success is True for episode in read_episodes(tmp_path / "e" / "episodes.jsonl"))
    assert summary["cost"]["total"] == pytest.approx(0.0031 * asked) and summary["cost"]["by"] == "prices"
    assert summary["cost"]["per_episode"] == pytest.approx(0.0031 * asked / 2)
    assert summary["cost"]["per_success"] == (pytest.approx(0.0031 * asked / won) if won else None)
    assert summary["latency"]["requests"] == asked and 0 < summary["latency"]["median"] <= summary["latency"]["p95"]
    assert summary["price"]["cached"] == 0.5
    shown = capsys.readouterr()
    assert f"tokens: {1000 * asked:,} in ({600 * asked:,} cached), {200 * asked:,} out" in shown.out
    assert f"price: ${0.0031 * asked:.4f}" in shown.out and "a request took" in shown.out
    assert "2 episodes: at most 6 requests and 24,576 output tokens, $0.25 for these" in shown.err


def test_a_table_that_comes_later_prices_what_was_played(tmp_path: Path) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e")) == 0
        assert summary_of(tmp_path / "e")["cost"] is None
        asked = server.asked
        assert main(evaluation(url, tmp_path / "e", "--prices", table(tmp_path))) == 0
        assert server.asked == asked and summary_of(tmp_path / "e")["cost"]["total"] == pytest.approx(0.0031 * asked)


def test_waiting_is_no_part_of_a_requests_time(tmp_path: Path) -> None:
    """Two requests are told to come back after half a second; those that are answered take far less."""
    wait = (429, {"Retry-After": "0.5"}, b"{}")
    with loopback.faulty([wait, wait], then=reply()) as (_, url):
        assert main(evaluation(url, tmp_path / "e", "--concurrency", "1")) == 0
    turns = [turn for episode in read_episodes(tmp_path / "e" / "episodes.jsonl") for turn in episode.turns]
    assert turns[0].seconds > 0.9 > turns[0].extra["request_seconds"]


def test_max_cost_stops_and_a_larger_one_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tasks", "6", "--concurrency", "1", "--max-cost"]
    with loopback.faulty([], then=reply({**COUNTED, "cost": 0.5})) as (server, url):
        assert main(evaluation(url, tmp_path / "e", *flags, "2.2")) == 1
        assert server.asked == 5  # each costs 0.5: the sixth would begin at 2.5
        said = capsys.readouterr().out
        assert "$2.5000 of --max-cost 2.2 are spent" in said and "a larger --max-cost continues" in said
        kept = len(read_episodes(tmp_path / "e" / "episodes.jsonl"))
        assert 1 <= kept < 6
        assert main(evaluation(url, tmp_path / "e", *flags, "100")) == 0
    assert len(read_episodes(tmp_path / "e" / "episodes.jsonl")) == 6
    assert summary_of(tmp_path / "e")["cost"]["by"] == "server"


def test_max_cost_needs_a_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", "--max-cost", "1", "--concurrency", "1")) == 2
    assert "--prices FILE" in capsys.readouterr().err and server.asked == 1


@pytest.mark.parametrize(
    "flags", [["--max-cost", "0"], ["--max-cost", "nan"], ["--prices", "none.toml"], ["--horizon", "0"]], ids=" ".join
)
def test_flags_that_cannot_be(flags: list[str], tmp_path: Path) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", *flags)) == 2
        assert main(["eval", "guessnumber", "--policy", "random", "--max-cost", "1", "--out", str(tmp_path / "f")]) == 2
    assert server.asked == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x", BadData),
        ('["m"]\ninput = 1\n', BadConfig),
        ('["m"]\ninput = 1\noutput = -1\n', BadConfig),
        ('["m"]\ninput = 1\noutput = 1\ncache = 2\n', BadConfig),
        ("m = 3\n", BadConfig),
    ],
)
def test_tables_that_are_none(text: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        read_prices(table(tmp_path, text))


def test_a_model_is_found_under_each_of_its_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("chat:openai/gpt", "openai/gpt", "gpt"):
        assert price_of("chat:openai/gpt", {name: PRICE}) is PRICE
    assert price_of("chat:http://h/v1#a/b", {"a/b": PRICE}) is PRICE and price_of("chat:openai/x", {"gpt": PRICE}) is None
    with loopback.faulty([], then=reply()) as (_, url):
        assert main(evaluation(url, tmp_path / "e", "--prices", table(tmp_path, '["n"]\ninput = 1\noutput = 1\n'))) == 2
    assert "no model in" in capsys.readouterr().err


def test_exact_tokens_are_counted_too_and_faults_were_paid() -> None:
    turns = [Turn("o", prompt_ids=[1, 2, 3], output_ids=[4]), Turn("o", prompt_ids=[1, 2, 3, 4, 5], output_ids=[6, 7])]
    fault = Episode(
        "e",
        "t",
        "g",
        0,
        reason="engine",
        turns=[Turn("o", messages=[{"role": "user"}], extra={"completion_tokens": 2, "prompt_tokens": 9, "cost": 1.0})],
    )
    rows = spending([Episode("e", "t", "g", 0, turns=turns, success=True)], None)
    assert rows["usage"] == {"input": 8, "output": 3, "cached": 0, "written": 0, "reasoning": 0} and rows["cost"] is None
    assert spending([fault], None)["cost"] == {"total": 1.0, "per_episode": 1.0, "per_success": None, "by": "server"}


def test_an_evaluation_is_extended_by_tasks_and_by_attempts(tmp_path: Path) -> None:
    out, command = tmp_path / "e", ["eval", "guessnumber", "--policy", "random", "--out", str(tmp_path / "e")]
    assert main([*command, "--tasks", "3"]) == 0
    first = (out / "episodes.jsonl").read_text()
    assert main([*command, "--tasks", "5"]) == 0
    assert (out / "episodes.jsonl").read_text().startswith(first)
    assert main([*command, "--tasks", "5", "--attempts", "2"]) == 0
    episodes = read_episodes(out / "episodes.jsonl")
    assert len({(episode.task_id, episode.attempt) for episode in episodes}) == len(episodes) == 10
    contamination = json.loads((out / "contamination.json").read_text())
    assert contamination["rlvr/GuessNumber-v0"]["split_overlap"]["checked"] == 5
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["attempts"] == 2 and options["envs"]["rlvr/GuessNumber-v0"]["tasks"] == 5
    whole = tmp_path / "whole"
    assert main([*command[:-1], str(whole), "--tasks", "5", "--attempts", "2"]) == 0
    for name in ("success", "reward", "turns"):
        assert summary_of(whole)[name] == summary_of(out)[name]


def test_fewer_tasks_are_another_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "guessnumber", "--policy", "random", "--out", str(tmp_path / "e"), "--tasks"]
    assert main([*command, "3"]) == 0 and main([*command, "2"]) == 2
    assert "other options" in capsys.readouterr().err
    assert main([*command, "3", "--horizon", "2"]) == 2


def test_too_few_tasks_are_said_before_anything_is_played() -> None:
    plan = {"e": EvaluationPlan(("e",), tasks=134)}
    protocol = {"protocol": {"name": "alfworld@agentgym", "tasks": 134}}
    tasks: Any = {"e": [None] * 30}
    assert missing_tasks(protocol, plan, tasks) == [
        "30 of 134 tasks of protocol alfworld@agentgym are here: the result will be not comparable with published numbers"
    ]
    assert missing_tasks({}, plan, tasks) == ["e: 30 of the 134 tasks asked for are here, and only these are played"]
    assert missing_tasks(protocol, plan, {"e": [None] * 134}) == missing_tasks({}, plan, {"e": [None] * 134}) == []
