"""Endpoints that misbehave in every way we know: a run over them ends complete, once each, and says what it met."""

import asyncio
import collections
import json
import random
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import loopback

import agentgym
from agentgym.cli import main
from agentgym.engines import Completion, Sampling
from agentgym.engines.openai.chat import OpenAIChatEngine
from agentgym.engines.openai.engine import OpenAIEngine
from agentgym.engines.openai.http import seconds_of
from agentgym.engines.openai.traffic import Server, Traffic
from agentgym.engines.scripted import ByteTokenizer
from agentgym.episodes.episode import read_episodes
from agentgym.errors import BadConfig, Fault

ASKED = [{"role": "user", "content": "hello"}]
GOOD = {"choices": [{"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}
NO_CREDIT = (429, {"Retry-After": "0"}, b'{"error": {"code": "insufficient_quota"}}')
TROUBLES: list[tuple[Any, str]] = [
    (429, "status 429"),
    ((429, {}, b"slow down"), "status 429"),
    ((429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b""), "status 429"),
    (500, "status 500"),
    (502, "status 502"),
    ((503, {"Retry-After": "0.02"}, b"busy"), "status 503"),
    ((204, {}, b""), "status 204"),
    (b"\x00\xff\x1b[31m", "not JSON"),
    (b'{"choices": [', "not JSON"),
    (b'{"choices": 1' + b"0" * 5000 + b"}", "not JSON"),
    (b"[1, 2]", "JSON of another shape"),
    ({"choices": [{"text": "7"}]}, "JSON of another shape"),
    ("half", "a cut answer"),
    ("half a stream", "a cut answer"),
    (b'data: {"choices": [{"delta": {"content": "7"}}]}\n\ndata: [DONE]\n\n', "not JSON"),
    ("nothing", "a broken connection"),
    ("no http", "a broken connection"),
    ("bad zip", "a broken connection"),
    ("huge", "an answer too long"),
    ("silent", "no answer in 2 s"),
    ("drip", "no answer in 2 s"),
]


def chat(url: str, **options: Any) -> OpenAIChatEngine:
    return OpenAIChatEngine(f"{url}#m", **{"backoff": 0.01, "timeout": 60.0, **options})


def one(engine: OpenAIChatEngine) -> Completion:
    return asyncio.run(engine.chat(ASKED, (), Sampling(max_tokens=8), "s"))


@pytest.mark.long
@pytest.mark.parametrize(("trouble", "kind"), TROUBLES, ids=[f"{n} {kind}" for n, (_, kind) in enumerate(TROUBLES)])
def test_each_trouble_is_counted_under_its_name_and_asked_again(trouble: Any, kind: str) -> None:
    with loopback.faulty([trouble], then=GOOD) as (server, url):
        engine = chat(url, timeout=2.0 if "no answer" in kind else 60.0)
        assert one(engine).text == "7"
    assert engine.met == {kind: 1} and server.requests == 2


def evaluation(url: str, out: Path, *flags: str) -> list[str]:
    command = ["eval", "guessnumber", "--model", f"chat:{url}#m", "--prompt", "bare", "--tasks", "6", "--attempts", "4"]
    command += ["--engine.backoff", "0.01", "--engine.timeout", "60", "--concurrency", "8", "--out", str(out)]
    return [*command, *flags]


def once(out: Path) -> list[agentgym.Episode]:
    episodes = read_episodes(out / "episodes.jsonl")
    counts = collections.Counter((episode.task_id, episode.attempt) for episode in episodes)
    assert len(counts) == 24 and set(counts.values()) == {1}
    return episodes


@pytest.mark.long
def test_an_evaluation_beside_a_server_in_trouble_ends_complete_and_says_what_it_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sixty troubles one after the other, whoever meets them.

    Two fail a request. On a first turn that is a fault of the episode, on a later one if two more fail the question whether
    the server answers at all; then the episode is tried once more. So a fault takes four to eight: no more than fifteen
    end so, and at least one, since each of the eight under way when the troubles end has met seven at the most.
    """
    rng = random.Random(0)
    quick = [pair for pair in TROUBLES if pair[0] not in ("huge", "silent", "drip")]
    troubles = [*quick, *(rng.choice(quick) for _ in range(60 - len(quick)))]
    rng.shuffle(troubles)
    out = tmp_path / "e"
    with loopback.faulty([GOOD] * 8 + [answer for answer, _ in troubles], then=GOOD) as (server, url):
        assert main(evaluation(url, out, "--engine.retries", "1")) == 1  # more than 1 % of faults
        faults = sum(episode.fault for episode in once(out))
        output, summary = capsys.readouterr().out, json.loads((out / "summary.json").read_text())
        assert 1 <= faults <= 15
        assert summary["success"]["faults"] == faults and summary["success"]["episodes"] == 24 - faults
        assert summary["met"] == collections.Counter(kind for _, kind in troubles)
        met = ", ".join(f"{n} x {kind}" for kind, n in summary["met"].items())
        assert f"server errors: {met}\n" in output
        assert f"{faults} infrastructure errors, left out of the rates" in output
        server.script[:] = [500, 500]
        assert main(evaluation(url, out, "--engine.retries", "3", "--retry-faults")) == 0
    assert not any(episode.fault for episode in once(out))
    again = json.loads((out / "summary.json").read_text())["met"]
    assert again == {**summary["met"], "status 500": summary["met"]["status 500"] + 2}
    sessions = json.loads((out / "manifest.json").read_text())["sessions"]
    assert [session["met"] for session in sessions] == [summary["met"], {"status 500": 2}]


def test_a_server_that_never_answers_well_leaves_only_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then=500) as (_, url):
        assert main(evaluation(url, tmp_path, "--engine.retries", "1", "--concurrency", "24")) == 1
    assert all(episode.fault and episode.success is None for episode in once(tmp_path))
    assert "96 x status 500" in capsys.readouterr().out  # two tries each, and each episode twice


def test_a_server_that_never_answers_at_all_ends_the_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loopback.faulty([], then="silent") as (server, url):
        assert (
            main(evaluation(url, tmp_path, "--engine.retries", "1", "--concurrency", "24", "--engine.timeout", "0.4")) == 2
        )
        assert server.requests <= 2 * 24  # nobody goes on after the first who has tried for the last time
    assert f"2 attempts: 2 x no answer in 0.4 s. {url} never answered anything" in capsys.readouterr().err


def test_a_rollout_over_tokens_ends_complete() -> None:
    rng = random.Random(1)
    good = loopback.changed(finish_reason="length")
    troubles = [trouble for trouble, _ in TROUBLES if trouble not in ("silent", "drip", "huge")]
    with loopback.faulty([rng.choice(troubles) if rng.random() < 0.5 else good for _ in range(60)], good) as (_, url):
        engine = OpenAIEngine(url, ByteTokenizer(), backoff=0.01, timeout=20.0, retries=12)
        agent = agentgym.ChatAgent(engine, prompt="bare", sampling=Sampling(max_tokens=2), turn_tokens=2)
        episodes = agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=4, attempts=2, horizon=3)
    assert len({(e.task_id, e.attempt) for e in episodes}) == 8 and not any(e.fault for e in episodes)
    assert sum(engine.met.values()) > 10


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ((401, {}, b"\x1b]0;owned\x07 bad key"), "check the key"),
        (402, "credit"),
        (403, "may this key use this model"),
        (404, "the model's name"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "check the address"),
        (NO_CREDIT, "credit"),
    ],
)
def test_what_no_request_would_escape_stops_the_run_with_one_sentence(
    answer: Any, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loopback.faulty([], then=answer) as (server, url):
        assert main(evaluation(url, tmp_path)) == 2
        assert server.requests <= 8  # those that were under way
    output = capsys.readouterr().err
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and hint in errors[0] and "Traceback" not in output and "\x1b]0" not in output
    assert not read_episodes(tmp_path / "episodes.jsonl")


@pytest.mark.long
@pytest.mark.parametrize("status", [400, 403, 404, 413])
def test_a_refusal_of_one_request_is_the_fault_of_one_episode(status: int, tmp_path: Path) -> None:
    with loopback.faulty([GOOD] * 30 + [status, status], then=GOOD) as (_, url):
        assert main(evaluation(url, tmp_path)) == 0
    once(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["met"] == {f"status {status}": 2}


def test_a_refused_request_is_not_sent_again() -> None:
    with loopback.faulty([GOOD], then=404) as (server, url):
        engine = chat(url)
        one(engine)
        with pytest.raises(Fault, match="status 404"):
            one(engine)
    assert server.requests == 2


def together(engine: OpenAIChatEngine, number: int) -> list[Completion]:
    async def ask() -> list[Completion]:
        return await asyncio.gather(*(engine.chat(ASKED, (), Sampling(max_tokens=8), f"s{i}") for i in range(number)))

    return asyncio.run(ask())


def test_one_429_makes_all_wait_and_afterwards_they_come_in_smaller_numbers() -> None:
    """Twelve requests, of which the first six are refused for 0.6 s: nothing is asked meanwhile, then six at a time."""
    with loopback.faulty([(429, {"Retry-After": "0.6"}, b"")] * 12, then=GOOD) as (server, url):
        engine = chat(url, timeout=20.0)
        assert len(together(engine, 12)) == 12
        gaps = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
        assert any(gap > 0.4 for gap in gaps), gaps  # a busy machine may make more of them
        assert server.requests == 24 and engine.met == {"status 429": 12}
        (only,) = engine.servers.servers
        assert 6 < only.room < 9  # six, and a place more for each six good answers


def test_the_pause_grows_where_no_time_is_named_and_a_long_one_is_cut() -> None:
    with loopback.faulty([(429, {}, b"")] * 4, then=GOOD) as (server, url):
        one(chat(url, backoff=0.05, timeout=20.0))
        gaps = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
        assert all(gap >= least for gap, least in zip(gaps, (0.04, 0.09, 0.19, 0.39), strict=True)), gaps
    with loopback.faulty([(429, {"Retry-After": "86400"}, b"")], then=GOOD) as (server, url):
        engine = chat(url, timeout=20.0)
        engine.servers._traffic._longest = 0.1
        assert one(engine).text == "7"


def test_requests_are_spaced_where_their_number_in_a_minute_is_given() -> None:
    async def starts() -> list[float]:
        traffic = Traffic([Server("http://a"), Server("http://b")], backoff=1.0, longest=1.0, per_minute=1200)

        async def start(number: int) -> float:
            await traffic.enter(str(number))
            return time.monotonic()

        return await asyncio.gather(*map(start, range(5)))

    times = asyncio.run(starts())
    assert all(after - times[0] > 0.05 * number - 0.01 for number, after in enumerate(times))
    with loopback.faulty([], then=GOOD) as (_, url):
        assert len(together(chat(url, requests_per_minute=6000, timeout=20.0), 3)) == 3
        with pytest.raises(BadConfig, match="requests_per_minute -1"):
            chat(url, requests_per_minute=-1)


def test_retry_after_is_seconds_or_a_date() -> None:
    assert seconds_of("7") == 7.0 and seconds_of(None) == seconds_of("soon") == seconds_of("-3") == seconds_of("nan") == 0.0
    ahead = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    assert 40 < seconds_of(ahead) <= 50
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == seconds_of("Wed, 99 Oct 99999 07:28:00 GMT") == 0.0


def test_connections_end_with_the_engine_or_with_their_event_loop() -> None:
    with loopback.faulty([], then=GOOD) as (_, url):
        engine = chat(url)

        async def client_of() -> Any:
            await engine.chat(ASKED, (), Sampling(max_tokens=8), "s")
            return engine.servers._client._client

        async def asked_and_closed() -> Any:
            client = await client_of()
            engine.close()
            assert (await client_of()) is not client  # a closed engine opens others
            return client

        with asyncio.Runner() as loop:
            first = loop.run(client_of())
            assert loop.run(client_of()) is first and not first.is_closed
            engine.close()
            assert first.is_closed
            inside = loop.run(asked_and_closed())
            last = engine.servers._client._client
            assert inside.is_closed and last is not None and not last.is_closed
        assert last.is_closed
        engine.close()
