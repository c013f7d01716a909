"""Tokens, money and seconds of an evaluation; evaluations that are extended; what is said before anything is played."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")
import loopback
from household_files import write_game

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
    requests, summary = server.requests, summary_of(tmp_path / "e")
    assert summary["usage"] == {
        "input": 1000 * requests,
        "output": 200 * requests,
        "cached": 600 * requests,
        "written": 0,
        "reasoning": 0,
    }
    won = sum(episode.success is True for episode in read_episodes(tmp_path / "e" / "episodes.jsonl"))
    assert summary["cost"]["total"] == pytest.approx(0.0031 * requests) and summary["cost"]["by"] == "prices"
    assert summary["cost"]["per_episode"] == pytest.approx(0.0031 * requests / 2)
    assert summary["cost"]["per_success"] == (pytest.approx(0.0031 * requests / won) if won else None)
    assert summary["latency"]["requests"] == requests and 0 < summary["latency"]["median"] <= summary["latency"]["p95"]
    assert summary["price"]["cached"] == 0.5
    captured = capsys.readouterr()
    assert f"tokens: {1000 * requests:,} in ({600 * requests:,} cached), {200 * requests:,} out" in captured.out
    assert f"price: ${0.0031 * requests:.4f}" in captured.out and "a request took" in captured.out
    assert "2 episodes: at most 6 requests and 24,576 output tokens, $0.25 for these" in captured.err


def test_a_table_that_comes_later_prices_what_was_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e")) == 0
        assert summary_of(tmp_path / "e")["cost"] is None
        requests = server.requests
        capsys.readouterr()
        assert main(evaluation(url, tmp_path / "e", "--prices", table(tmp_path))) == 0
        assert server.requests == requests and summary_of(tmp_path / "e")["cost"]["total"] == pytest.approx(
            0.0031 * requests
        )
        assert "every episode is there" in capsys.readouterr().err
        assert main([*evaluation(url, tmp_path / "e"), "--tasks", "5"]) == 0
        assert "3 more episodes: at most 9 requests and 36,864 output tokens" in capsys.readouterr().err


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
        output = capsys.readouterr().out
        first = read_episodes(tmp_path / "e" / "episodes.jsonl")
        assert (
            f"${0.5 * server.requests:.4f} of --max-cost 2.2 are spent" in output
            and "a larger --max-cost continues" in output
        )
        assert "episodes are kept, success" in output.replace("\n", " ") and "% so far;" in output.replace("\n", " ")
        assert 5 <= server.requests == sum(len(episode.turns) for episode in first) < 5 + 3  # the last one was finished
        assert main(evaluation(url, tmp_path / "e", *flags, "100")) == 0
        episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
        assert len(episodes) == 6 and server.requests == sum(len(episode.turns) for episode in episodes)
    assert summary_of(tmp_path / "e")["cost"]["by"] == "server"


def test_episodes_in_flight_are_finished_and_not_paid_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four begin at once, and the first three requests spend it all: twelve turns are paid for and kept, no episode more."""
    flags = ["--tasks", "9", "--concurrency", "4", "--max-cost"]
    with loopback.faulty([], then=reply({**COUNTED, "cost": 1.0})) as (server, url):
        assert main(evaluation(url, tmp_path / "e", *flags, "3")) == 1
        assert "4 of 9 episodes are kept" in capsys.readouterr().out
        stored = read_episodes(tmp_path / "e" / "episodes.jsonl")
        assert len(stored) == 4 and server.requests == sum(len(episode.turns) for episode in stored)
        assert main(evaluation(url, tmp_path / "e", *flags, "3")) == 1 and server.requests == sum(
            len(e.turns) for e in stored
        )
        assert main(evaluation(url, tmp_path / "e", *flags, "100")) == 0
        episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
        assert len(episodes) == 9 and server.requests == sum(len(episode.turns) for episode in episodes)


def test_max_cost_needs_a_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", "--max-cost", "1", "--concurrency", "1")) == 2
    assert "--prices FILE" in capsys.readouterr().err and server.requests == 1


@pytest.mark.parametrize(
    "flags", [["--max-cost", "0"], ["--max-cost", "nan"], ["--prices", "none.toml"], ["--horizon", "0"]], ids=" ".join
)
def test_flags_that_cannot_be(flags: list[str], tmp_path: Path) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", *flags)) == 2
        policy = ["eval", "guessnumber", "--policy", "random", "--out", str(tmp_path / "f")]
        assert main([*policy, "--max-cost", "1"]) == 2 and main([*policy, "--max-cost", "1", "--plan"]) == 2
    assert server.requests == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x", BadData),
        ('["m"]\ninput = 1\n', BadConfig),
        ('["m"]\ninput = 1\noutput = -1\n', BadConfig),
        ('["m"]\ninput = 1\noutput = 1\ncache = 2\n', BadConfig),
        ("m = 3\n", BadConfig),
        ('["m"]\ninput = 1e308\noutput = 1\n', BadConfig),  # of which two are infinite
        ('["m"]\ninput = 9223372036854775807\noutput = 1\n', BadConfig),
        ('["m"]\ninput = nan\noutput = 1\n', BadConfig),
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


def test_replies_that_nobody_counted_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every second answer has no usage: the sums are of the others, and say so everywhere."""
    script = [reply(), reply(None)] * 6
    with loopback.faulty(script, then=reply()) as (server, url):
        assert main(evaluation(url, tmp_path / "e", "--prices", table(tmp_path), "--concurrency", "1")) == 0
        none = server.requests // 2
        assert none and summary_of(tmp_path / "e")["uncounted"] == none
        assert summary_of(tmp_path / "e")["usage"]["output"] == 200 * (server.requests - none)
        output = capsys.readouterr().out
        assert f"the server did not count the tokens of {none} of {server.requests} replies" in output
        assert f"price: at least ${0.0031 * (server.requests - none):.4f}" in output and "tokens: at least" in output
    assert summary_of(tmp_path / "e")["tokens"] is None  # of no episode are they known
    with loopback.faulty([], then=reply(None)) as (server, url):
        assert main(evaluation(url, tmp_path / "f", "--prices", table(tmp_path), "--max-cost", "1")) == 2
    assert "did not count the tokens of a reply" in capsys.readouterr().err


def test_policies_without_a_model_have_no_reply_to_count(tmp_path: Path) -> None:
    assert main(["eval", "guessnumber", "--policy", "random", "--tasks", "2", "--out", str(tmp_path / "e")]) == 0
    summary = summary_of(tmp_path / "e")
    assert (summary["uncounted"], summary["tokens"], summary["usage"]) == (0, 0, None)


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
    errors = capsys.readouterr().err
    assert "other options" in errors and "nothing is played" not in errors
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


def test_a_plan_says_how_much_would_be_played_and_asks_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loopback.faulty([], then=reply()) as (server, url):
        flags = ["--prices", table(tmp_path), "--attempts", "3", "--turn-tokens", "100", "--plan"]
        assert main(evaluation(url, tmp_path / "e", *flags)) == 0
        assert server.requests == 0 and not (tmp_path / "e").exists()
    output = capsys.readouterr().out
    assert "rlvr/GuessNumber-v0, split test: 2 tasks x 3 attempts, at most 3 turns each" in output
    assert "6 episodes: at most 18 requests and 1,800 output tokens, $0.02 for these" in output  # 1,800 x $10 a million
    assert main(["eval", "guessnumber,frozenlake", "--policy", "oracle", "--tasks", "4", "--plan"]) == 0
    assert "8 episodes: at most 448 turns" in capsys.readouterr().out  # 4 of 12 and 4 of 100


def test_a_plan_of_a_protocol_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_game(tmp_path / "valid_unseen" / "pick_cool_then_place_in_recep-Apple-None-Shelf-1" / "trial_T1")
    words = ["eval", "alfworld@verl-agent-unseen", "--env.data", str(tmp_path), "--model", "chat:http://127.0.0.1:1/v1#m"]
    assert main([*words, "--plan"]) == 0
    output = capsys.readouterr().out
    assert "1 tasks x 8 attempts, at most 50 turns each" in output and "400 requests and 204,800 output tokens" in output
    assert "1 of 134 tasks of protocol alfworld@verl-agent-unseen are here" in output
