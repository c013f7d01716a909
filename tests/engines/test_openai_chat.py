"""The chat engine against the gateway over a real engine, and against servers that misbehave."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import loopback
import tiny

import agentgym
from agentgym.cli import main
from agentgym.engines import Completion, Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.openai.answers import bounded, characters, read_completion
from agentgym.engines.openai.chat import OpenAIChatEngine
from agentgym.engines.scripted import ScriptedEngine
from agentgym.episodes.episode import read_episodes
from agentgym.episodes.usage import Usage
from agentgym.errors import BadConfig, Fault
from agentgym.gateway import App, Gateway

KEY = "sk-secret-0123456789"
ASKED = [{"role": "user", "content": "hello"}]


def reply(text: Any = "hi", finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def client(url: str, **options: Any) -> OpenAIChatEngine:
    return OpenAIChatEngine(f"{url}#m", **{"backoff": 0.01, "timeout": 1.0, **options})


def one(engine: OpenAIChatEngine, **sampling: Any) -> Completion:
    return asyncio.run(engine.chat(ASKED, (), Sampling(**{"max_tokens": 8, **sampling}), "s"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine = HFEngine(tiny.folder(tmp_path_factory.mktemp("a")), slots=4)
    with loopback.serving(App(Gateway(engine, "tiny"), key=KEY)) as url:
        yield f"{url}/v1"


@pytest.mark.parametrize("agent", ["chat", "window"])
def test_eval_over_the_gateway_ends_complete_and_the_key_is_nowhere(
    agent: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTGYM_API_KEY", KEY)
    command = ["eval", "guessnumber", "--model", f"chat:{address}#tiny", "--tasks", "3", "--attempts", "2"]
    command += ["--turn-tokens", "6", "--agent", agent, "--out", str(tmp_path / "e")]
    assert main(command) == 0
    episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
    assert len(episodes) == 6 and not any(episode.fault for episode in episodes)
    assert all(turn.extra["completion_tokens"] <= 6 and not turn.output_ids for e in episodes for turn in e.turns)
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert summary["tokens"] > 0
    captured = capsys.readouterr()
    written = "".join(path.read_text() for path in (tmp_path / "e").iterdir())
    assert KEY not in written + captured.out + captured.err
    assert json.loads((tmp_path / "e" / "manifest.json").read_text())["options"]["model"] == f"chat:{address}#tiny"


def test_a_wrong_key_is_said_once_and_never_shown(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-wrong-key")
    command = ["eval", "guessnumber", "--model", f"chat:{address}#tiny", "--tasks", "1", "--out", str(tmp_path / "e")]
    assert main([*command, "--engine.key_env", "MY_KEY"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("status 401") == 1 and "check the key" in captured.err
    assert "sk-wrong-key" not in captured.out + captured.err
    assert "sk-wrong-key" not in "".join(path.read_text() for path in (tmp_path / "e").iterdir())


def test_scripted_replies_come_back_word_for_word() -> None:
    engine = ScriptedEngine(lambda prompt, turn: "7" if "from 1 to" in prompt and turn < 3 else "é\n8")
    with loopback.serving(App(Gateway(engine, "policy"))) as url:
        agent = agentgym.MessageAgent(agentgym.engine(f"chat:{url}/v1"), prompt="bare")  # the only model served
        (episode,) = agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=1, horizon=5)
    assert {turn.action for turn in episode.turns} <= {"7", "é\n8"} and not episode.fault


NOT_JSON = ("html", "empty", "nested")
TROUBLES = {
    "status 429": 429,
    "status 500": 500,
    "no answer in 1 s": "silent",
    "a cut answer": "half",
    "an answer too long": "huge",
}
GARBAGE: dict[str, Any] = {
    "html": b"<html>Bad gateway</html>",
    "empty": b"",
    "a list": [],
    "nested": b"[" * 50_000,
    "no choice": {"choices": []},
    "two choices": {"choices": reply()["choices"] * 2},
    "no message": {"choices": [{"finish_reason": "stop"}]},
    "a number": reply(7),
    "parts": reply([{"type": "text", "text": "x"}]),
    "no end": reply("half", None),
    "another end": reply("x", "because"),
    "nothing": reply(None, None),
}


@pytest.mark.parametrize("name", [*TROUBLES, *GARBAGE])
def test_trouble_is_met_counted_and_retried(name: str) -> None:
    with loopback.faulty([TROUBLES.get(name, GARBAGE.get(name))], then=reply()) as (server, url):
        engine = client(url)
        assert one(engine) == Completion([], [], "stop", text="hi", usage=Usage(9, 2))
    assert engine.met == {name if name in TROUBLES else "not JSON" if name in NOT_JSON else "JSON of another shape": 1}
    assert server.requests == 2


def test_a_run_beside_every_trouble_ends_complete_and_says_what_it_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [429, 500, b"garbage", "half", "nothing", reply("7"), reply("")] * 6
    with loopback.faulty(script, then=reply("7")) as (_, url):
        command = ["eval", "guessnumber", "--model", f"chat:{url}#m", "--prompt", "bare", "--tasks", "4"]
        command += ["--engine.backoff", "0.01", "--engine.retries", "40", "--out", str(tmp_path / "e")]
        assert main(command) == 0
    episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
    assert len(episodes) == 4 and not any(episode.fault for episode in episodes)
    output = capsys.readouterr().out
    assert "server errors: " in output and "6 x status 429" in output and "6 x status 500" in output


def test_after_the_last_retry_the_fault_says_what_was_met() -> None:
    with loopback.faulty([429, b"?"], then=500) as (server, url):
        with pytest.raises(Fault, match=r"3 attempts: status 429, not JSON .*, status 500") as found:
            one(client(url, retries=2))
        assert found.value.reason == "engine" and server.requests == 3


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply("", "length"), Completion([], [], "length", text="", usage=Usage(9, 2))),
        (reply(None, "stop", refusal="I will not"), Completion([], [], "refusal", text="I will not", usage=Usage(9, 2))),
        (reply(None, "content_filter"), Completion([], [], "filter", text="", usage=Usage(9, 2))),
        ({**reply("\ud800x"), "usage": {"prompt_tokens": -1}}, Completion([], [], "stop", text="?x")),
    ],
)
def test_odd_answers_that_are_answers(answer: Any, expected: Completion) -> None:
    with loopback.faulty([], then=answer) as (server, url):
        assert one(client(url)) == expected and server.requests == 1


def test_a_server_that_repeats_the_key_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_API_KEY", KEY)
    with loopback.faulty([], then=reply(f"your key is {KEY}")) as (_, url):
        assert one(client(url)).text == "your key is [key]"
    with loopback.faulty([f"<{KEY}>".encode()] * 2, then=500) as (_, url), pytest.raises(Fault) as found:
        one(client(url, retries=1))
    assert KEY not in str(found.value) and "[key]" in str(found.value)


@pytest.mark.parametrize(
    "options",
    [{"limit": "tokens"}, {"omit": "model"}, {"key_env": "NO_SUCH_VARIABLE"}, {"retries": -1}],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(BadConfig):
        OpenAIChatEngine("http://127.0.0.1:1/v1#m", **options)


@pytest.mark.parametrize("target", ["http://me:word@h/v1#m", "http://h/v1?key=x#m", "localhost#m", "http://127.0.0.1:1/v1"])
def test_an_address_that_is_none(target: str) -> None:
    with pytest.raises(BadConfig):
        OpenAIChatEngine(target)


def test_a_key_that_no_header_can_hold_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_API_KEY", "sk one\ntwo")
    with pytest.raises(BadConfig, match="characters that no key has") as found:
        OpenAIChatEngine("http://127.0.0.1:1/v1#m")
    assert "sk one" not in str(found.value)


def test_what_is_asked_and_what_is_left_out() -> None:
    engine = OpenAIChatEngine("http://127.0.0.1:1/v1#m", omit="temperature,seed", limit="max_completion_tokens")
    body = engine.request(ASKED, (), Sampling(temperature=0.4, max_tokens=5, seed=3))
    assert body == {
        "model": "m",
        "messages": ASKED,
        "max_completion_tokens": 5,
        "n": 1,
        "stream": False,
        "top_p": 1.0,
    }
    for bad in (Sampling(top_k=2), Sampling(stop_ids=(1,))):
        with pytest.raises(BadConfig, match="temperature and max_tokens only"):
            asyncio.run(engine.chat(ASKED, (), bad, "s"))


def test_an_aborted_request_hangs_up() -> None:
    with loopback.faulty(["silent"]) as (_, url):

        async def run() -> Completion:
            engine = client(url, timeout=20.0)
            task = asyncio.create_task(engine.chat(ASKED, (), Sampling(), "gone"))
            await asyncio.sleep(0.1)
            engine.abort("gone")
            return await task

        assert asyncio.run(run()).finish == "abort"


def test_the_gateway_refuses_to_stand_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "gateway", "--engine", "chat", "--model", "http://127.0.0.1:1/v1#m"]) == 2
    assert "plain chat has none" in capsys.readouterr().err


def test_the_gateway_looks_for_no_path_on_a_hub(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    assert main(["serve", "gateway", "--model", "runs/none"]) == 2
    assert "model runs/none is not there; expected the folder" in capsys.readouterr().err


def test_a_reply_is_cut_at_a_multiple_of_max_tokens() -> None:
    """8 tokens: 256 + 64 * 8 = 768 characters of text, names and arguments together; no more is kept of any field."""
    calls = [{"id": "i" * 10_000, "function": {"name": "f", "arguments": json.dumps({"a": "b" * 500})}}] * 3

    def complete(text: Any, **more: Any) -> Completion:
        body = {**reply(text, **more), "logprobs": ["x" * 1000], "reasoning_content": "r" * 100_000}
        return bounded(read_completion(body), characters(8))

    whole = complete("t" * 768)
    assert (whole.text, whole.finish) == ("t" * 768, "stop")
    cut = complete("t" * 2_000_000)
    assert (cut.text, cut.finish, cut.calls) == ("t" * 768, "length", [])
    several = complete(None, tool_calls=calls)  # 510 characters each: one is whole, the second is cut, the third left out
    assert [len(call.name + call.arguments) for call in several.calls] == [510, 258] and several.finish == "length"
    assert all(len(call.id) == 201 for call in several.calls)
    one_call = complete("hi", tool_calls=calls[:1])
    assert one_call.finish == "stop" and json.loads(one_call.calls[0].arguments) == {"a": "b" * 500}


def test_no_more_is_read_of_an_answer_than_its_tokens_may_take() -> None:
    """8 tokens: 64 KiB and 2 * 768 bytes. The rest is never sent, and quotes in a text end no field."""
    long = {"choices": [{"message": {"role": "assistant", "content": 'é "content": "no" \\' + "t" * 2_000_000}}]}
    thought = {"choices": [{"message": {"reasoning_content": "r" * 2_000_000, "content": "late"}}]}
    half = b'{"choices": [{"message": {"content": "' + b"\\u00e9" * 200_000  # cut within an escape
    half_emoji = b'{"choices": [{"message": {"content": "x' + b"\\ud83d\\ude00" * 200_000
    with loopback.faulty([long, thought, half, half_emoji], then=reply()) as (server, url):
        replies = [one(client(url)) for _ in range(4)]
    assert [done.finish for done in replies] == ["length"] * 4 and server.requests == 4
    assert replies[0].text == ('é "content": "no" \\' + "t" * 768)[:768]
    assert replies[1].text == "" and replies[2].text == "é" * 768 and replies[3].text == ("x" + "😀" * 768)[:768]
