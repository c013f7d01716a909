"""The gateway under odd clients: replies under way, long prompts, many sessions, two writers, and a kill."""

import asyncio
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import httpx2
import loopback
import tiny

from agentgym.agents.encode import UntrustedText
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.episodes.episode import append_episodes, read_episodes
from agentgym.errors import BadConfig
from agentgym.gateway import App, Gateway, sessions
from agentgym.gateway.sessions import SessionBusy, Sessions

JSON = {"Content-Type": "application/json"}


class Slow(ScriptedEngine):
    """Answers when it is let go."""

    def __init__(self) -> None:
        super().__init__(lambda prompt, turn: "yes")
        self.started, self.free = threading.Event(), threading.Event()

    async def generate(self, *args: Any, **options: Any) -> Any:
        self.started.set()
        while not self.free.is_set():
            await asyncio.sleep(0.001)
        return await super().generate(*args, **options)


def body(text: str = "hi", **options: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 4, "user": "s", **options}


@contextmanager
def behind(client: httpx2.Client, content: dict[str, Any]) -> Iterator[list[httpx2.Response]]:
    """Ask in a thread; the answer is in the list afterwards."""
    found: list[httpx2.Response] = []
    thread = threading.Thread(target=lambda: found.append(client.post("/v1/chat/completions", json=content)))
    thread.start()
    yield found
    thread.join(30)
    assert found


def until(name: str, gateway: Gateway) -> None:
    """Wait for a session."""
    for _ in range(30_000):
        if name in gateway.sessions.open:
            return
        time.sleep(0.001)
    raise AssertionError(f"no session {name}")


def test_a_session_with_a_reply_under_way_is_not_finished(tmp_path: Path) -> None:
    engine, path = Slow(), tmp_path / "episodes.jsonl"
    gateway = Gateway(engine, "tiny", out=path)
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        with behind(client, body()) as answers:
            assert engine.started.wait(30)
            early = client.post("/v1/sessions/s/finish", json={"reward": 1})
            assert early.status_code == 409 and early.json()["error"]["code"] == "session_busy"
            assert "1 reply is under way in session 's'" in early.json()["error"]["message"]
            with pytest.raises(SessionBusy):
                gateway.sessions.finish("s")
            engine.free.set()
        assert answers[0].status_code == 200
        assert client.post("/v1/sessions/s/finish", json={"reward": 1}).json()["turns"] == 1
    assert [len(episode.turns) for episode in read_episodes(path)] == [1]


def test_a_late_stream_begins_before_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.gateway.app._PATIENCE", 0.02)
    engine = Slow()
    with loopback.serving(App(Gateway(engine, "tiny"))) as url:
        request = {"json": body(stream=True), "timeout": 60}
        with httpx2.stream("POST", f"{url}/v1/chat/completions", **request) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": waiting"
            engine.free.set()
            assert "data: [DONE]" in list(lines)


def test_a_busy_session_does_not_give_way(tmp_path: Path) -> None:
    engine = Slow()
    gateway = Gateway(engine, "tiny", out=tmp_path / "e.jsonl")
    gateway.sessions._limit = 1
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        with behind(client, body()) as first:
            assert engine.started.wait(30)
            with behind(client, body(user="other")) as second:
                until("other", gateway)
                engine.free.set()
        assert first[0].status_code == second[0].status_code == 200
        assert list(gateway.sessions.open) == ["s", "other"]
        client.post("/v1/chat/completions", json=body(user="third"))
    assert list(gateway.sessions.open) == ["third"] and len(read_episodes(tmp_path / "e.jsonl")) == 2


def test_sessions_give_way_by_tokens_too(tmp_path: Path) -> None:
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny", out=tmp_path / "e.jsonl")
    gateway.sessions._most = 100
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        for number in range(6):
            assert client.post("/v1/chat/completions", json=body("x" * 20, user=str(number))).status_code == 200
    held_tokens = gateway.counts()["held_tokens"]
    assert gateway.sessions._tokens == held_tokens
    each = held_tokens // len(gateway.sessions.open)
    assert held_tokens - each <= 100 < held_tokens + each  # what is over goes when the next request comes
    assert len(read_episodes(tmp_path / "e.jsonl")) + len(gateway.sessions.open) == 6


def test_a_session_holds_every_token_once() -> None:
    """30 turns of 250 tokens: a second copy of each prompt would be some 100,000 numbers more."""
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "r" * 50), "tiny")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        messages: list[dict[str, str]] = []
        for turn in range(30):
            messages.append({"role": "user", "content": f"{turn:03d}" + "x" * 160})
            answer = client.post("/v1/chat/completions", json={**body(), "messages": messages, "max_tokens": 60}).json()
            messages.append(answer["choices"][0]["message"])
    session = gateway.sessions.open["s"]
    (turns,) = session.rows
    assert len(turns) == 30 and session.tokens == len(turns[-1].prompt_ids) + len(turns[-1].output_ids)
    assert all(len(turn.output_ids) == len(turn.logprobs) == 51 for turn in turns)
    assert not any(turn.prompt_ids or turn.output_ids for _, _, turn in session._rows[0]._turns)
    assert session._rows[0].ids.itemsize * len(session._rows[0].ids) < 40_000


def test_a_long_prompt_is_encoded_while_others_are_served() -> None:
    """The long one can only go on once the others have been answered."""
    others = threading.Event()

    class Waiting(Gateway):
        def _prompt(self, request: Any, *rest: Any) -> Any:
            if request.size > 100_000:
                assert others.wait(30), "nobody was served meanwhile"
            return super()._prompt(request, *rest)

    gateway = Waiting(HFEngine(tiny.model(), ByteTokenizer()), "tiny")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        with behind(client, body("the quick brown fox " * 10_000, user="long")) as answers:
            until("long", gateway)
            assert client.post("/v1/chat/completions", json=body()).status_code == 200
            others.set()
        assert answers[0].json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("text", ["", "x"])
def test_a_prompt_of_many_messages_takes_time_by_their_number(text: str) -> None:
    """Not by its square: one request would hold up all long prompts for minutes."""
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes", context=1 << 20), "tiny")

    def seconds(count: int) -> float:
        messages = [("user", "assistant")[i % 2] for i in range(count)]
        started = time.process_time()
        gateway.template.whole([(role, [UntrustedText(text)]) for role in messages])
        return time.process_time() - started

    seconds(101)
    least = min(seconds(1001) for _ in range(3))
    assert min(seconds(16_001) for _ in range(2)) < 60 * least  # 16 times as many; with the square 256 times


def test_more_messages_than_the_context_has_tokens_are_refused_unread() -> None:
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes", context=100), "tiny")
    gateway._prompt = None  # type: ignore[assignment]  # would be called
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        many = [{"role": "user", "content": ""}] * 101
        error = client.post("/v1/chat/completions", json={**body(), "messages": many}).json()["error"]
        assert error["code"] == "context_length_exceeded" and "101 messages" in error["message"]


def test_temperatures_that_no_engine_can_do_are_refused_with_the_reason() -> None:
    gateway = Gateway(HFEngine(tiny.model(), ByteTokenizer()), "tiny")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        for value in (1e-6, 1e-40, 0.0099):
            answer = client.post("/v1/chat/completions", json=body(temperature=value))
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, "temperature") and "expected 0, which is greedy" in str(
                error
            )
            score = {"model": "tiny", "prompt": [1, 2], "prompt_logprobs": 0, "prompt_logprobs_temperature": value}
            assert client.post("/v1/completions", json=score).status_code == 400
        for value in (0, 0.01, 100):
            assert client.post("/v1/chat/completions", json=body(temperature=value)).status_code == 200
    overruled = Gateway(gateway.engine, "tiny", temperature=1.0)
    with loopback.serving(App(overruled)) as url:
        answer = httpx2.post(f"{url}/v1/chat/completions", json=body(temperature=1e-6), timeout=60)
    assert answer.status_code == 200 and overruled.sessions.open["s"].rows[0][0].extra == {"temperature": 1.0}
    for value in (1e-6, -1, float("nan")):
        with pytest.raises(BadConfig, match=r"0, or 0\.01 or more"):
            Gateway(gateway.engine, "tiny", temperature=value)


def test_an_empty_reply_may_come_back_as_null() -> None:
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: ""), "tiny")
    user = {"role": "user", "content": "hi"}
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        assert client.post("/v1/chat/completions", json=body()).json()["choices"][0]["message"]["content"] == ""
        messages = [user, {"role": "assistant", "content": None}, user]
        assert client.post("/v1/chat/completions", json={**body(), "messages": messages}).status_code == 200
        session = gateway.sessions.open["s"]
        assert session.counts()["rows"] == 1 and session.drifted == 0
        null = [{"role": "user", "content": None}]
        assert client.post("/v1/chat/completions", json={**body(), "messages": null}).status_code == 400
        huge = {"model": "tiny", "prompt": [2**40]}
        assert client.post("/v1/completions", json=huge).status_code == 400


def test_a_file_of_episodes_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    path.write_text('{"unfinished": ')
    first = Sessions(path)
    assert path.read_text() == ""
    path.write_text("half a line of the first")
    for open_second in (Sessions, append_episodes):
        with pytest.raises(BadConfig, match=re.escape(f"{path} is being written to by another run")):
            open_second(path)
    assert path.read_text() == "half a line of the first"  # and is left alone
    first.close()
    Sessions(path).close()


@contextmanager
def served(folder: Path, out: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yields its process and address."""
    command = [
        sys.executable,
        *["-m", "agentgym", "serve", "gateway", "--port", "0", "--model"],
        str(folder),
        "--out",
        str(out),
    ]
    environment = {**os.environ, "COLUMNS": "300"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found, process.communicate(timeout=300)
        for _ in range(100):
            try:
                httpx2.get(f"{found[0]}/health")
                break
            except httpx2.ConnectError:
                time.sleep(0.1)
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=300)


@pytest.mark.long
def test_what_was_finished_outlives_a_kill(tmp_path: Path) -> None:
    folder, out = tiny.folder(tmp_path / "model"), tmp_path / "out.jsonl"
    with served(folder, out) as (process, url):
        for name in ("done", "open"):
            sent = {**body(), "model": "model", "user": name}
            assert httpx2.post(f"{url}/v1/chat/completions", json=sent, timeout=60).status_code == 200
        assert httpx2.post(f"{url}/v1/sessions/done/finish", json={"reward": 1}).status_code == 200
        with pytest.raises(BadConfig, match="is being written to by another run"):
            append_episodes(out)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    with out.open("a") as file:  # as if it had been killed in the middle of a line
        file.write('{"env": "gateway", "tur')
    append_episodes(out).close()  # the lock went with the process
    assert [json.loads(line)["reward"] for line in out.read_text().splitlines()] == [1.0]
    assert [(e.labels["session"], e.success) for e in read_episodes(out)] == [("done", True)]


def test_one_session_cannot_push_out_the_others() -> None:
    """It is refused when it holds a quarter of what all may; what it said stays, to be finished as it went."""
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny")
    gateway.sessions = Sessions(tokens=4000)
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url) as client:
        client.post("/v1/chat/completions", json=body(user="other"))
        flood = {"model": "tiny", "max_tokens": 1, "user": "s"}
        answers = [client.post("/v1/completions", json={**flood, "prompt": [n] * 100, "n": 5}) for n in range(1, 12)]
        assert [answer.status_code for answer in answers] == [200, 200] + [400] * 9
        assert answers[-1].json()["error"]["code"] == "session_full"
        assert client.post("/v1/chat/completions", json=body(user="other")).status_code == 200
        assert gateway.sessions.open["other"].counts()["turns"] == 2
        assert gateway.sessions.finish("s", 0.0, False).success is False


def test_without_a_key_only_names_of_this_machine_are_answered() -> None:
    """A web page can have its own name point to loopback; with a key it would lack that."""
    for key, status in ((None, 403), ("secret", 200)):
        headers = {"Authorization": "Bearer secret"} if key else {}
        app = App(Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny"), key=key)
        with loopback.serving(app) as url, httpx2.Client(base_url=url, timeout=60, headers=headers) as client:
            for host in ("page.example", "page.example:80", "127.0.0.1.page.example", "10.0.0.1", "", "[::", "localhost.x"):
                for path in ("/v1/models", "/v1/sessions"):
                    assert client.get(path, headers={"Host": host}).status_code == status, host
                answer = client.post("/v1/chat/completions", json=body(), headers={"Host": host})
                assert answer.status_code == status and (status == 200 or "localhost" in answer.json()["error"]["message"])
            for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:9", "[::1]:8000", "127.8.0.1"):
                assert client.get("/v1/models", headers={"Host": host}).status_code == 200, host


def test_a_session_closed_for_room_says_so(tmp_path: Path) -> None:
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny", out=tmp_path / "e.jsonl")
    gateway.sessions._limit = 1
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        for name in ("s", "other"):
            assert client.post("/v1/chat/completions", json=body(user=name)).status_code == 200
        answer = client.post("/v1/sessions/s/finish", json={"reward": 1})
        assert answer.status_code == 404 and "closed to make room" in answer.json()["error"]["message"]
        assert "closed to make room" not in client.post("/v1/sessions/no/finish", json={}).json()["error"]["message"]
    (episode,) = read_episodes(tmp_path / "e.jsonl")
    assert episode.fault and "closed to make room" in (episode.error or "")


def test_a_session_that_goes_on_after_it_made_room_is_no_success(tmp_path: Path) -> None:
    """What it said before is lost: half of it is not what was rewarded."""
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny", out=tmp_path / "e.jsonl")
    gateway.sessions._limit = 2
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        for name in ("s", "x", "y", "s"):
            assert client.post("/v1/chat/completions", json=body(user=name)).status_code == 200
        answer = client.post("/v1/sessions/s/finish", json={"reward": 1}).json()
        assert answer["success"] is None and "closed to make room" in answer["error"]
        again = client.post("/v1/sessions/s/finish", json={"reward": 1})
        assert again.status_code == 404 and "closed to make room" not in again.text
        assert client.post("/v1/chat/completions", json=body(user="s")).status_code == 200  # another one of that name
        answer = client.post("/v1/sessions/s/finish", json={"reward": 1}).json()
        assert answer["success"] is True and "error" not in answer
    assert [episode.success for episode in read_episodes(tmp_path / "e.jsonl")] == [None, None, None, True]


def test_what_choices_share_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop waits while replies are recorded: 128 of them to a long prompt cost what one does, and their own."""
    compared, hashed = [], []
    compare, extend = sessions.common_prefix, sessions._extended
    monkeypatch.setattr(sessions, "common_prefix", lambda *pair: compared.append(1) or compare(*pair))
    monkeypatch.setattr(sessions, "_extended", lambda *pair: hashed.append(1) or extend(*pair))
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        messages = [{"role": "user", "content": "hi"}]
        client.post("/v1/chat/completions", json=body(messages=messages))
        compared.clear(), hashed.clear()
        messages += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "and?"}]
        answer = client.post("/v1/chat/completions", json=body(messages=messages, n=128))
        assert len(answer.json()["choices"]) == 128
    # found again (3 messages), recorded (3), and every reply's own
    assert len(compared) == 1 and len(hashed) == 3 + 3 + 128
    session = gateway.sessions.open["s"]
    assert session.counts()["rows"] == 128 and session.counts()["turns"] == 129 and not session.drifted


def test_a_session_ends_with_a_verdict_and_a_finite_reward() -> None:
    """What is none leaves the session open: nothing is lost."""
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "yes"), "tiny")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url) as client:
        client.post("/v1/chat/completions", json=body(user="s"))
        for success in (math.nan, 1, "false", (False, "why")):
            with pytest.raises(TypeError, match="success of session 's' is"):
                gateway.sessions.finish("s", 0.0, success)  # type: ignore[arg-type]
        for reward in (math.nan, math.inf, "1", None, 1 + 0j):
            with pytest.raises(TypeError, match="the reward of session 's' is"):
                gateway.sessions.finish("s", reward, True)  # type: ignore[arg-type]
        episode = gateway.sessions.finish("s", 1, True)
    assert (episode.reward, episode.success, len(episode.turns)) == (1.0, True, 1)
