"""How a reply is drawn and told: token by token, up to a stop string, several at once, with a call that must come."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import httpx2
import loopback
import tiny
from hypothesis import given
from hypothesis import strategies as st
from test_gateway_tools import NAMES, TOOLS, call, talking, user

from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.gateway import App, Gateway
from agentgym.gateway.requests import read_request
from agentgym.gateway.telling import ReplyStreamer, _begun
from agentgym.trainers.data.segments import build

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "user": "s", "return_token_ids": True}


class Stepped(ScriptedEngine):
    """Goes on to its next token when it is let."""

    def __init__(self, text: str) -> None:
        super().__init__(lambda prompt, turn: text)
        self.allowed = self.sampled = 0

    async def generate(self, *args: Any, watch: Any = None, **options: Any) -> Any:
        done = await super().generate(*args, **options)
        for id, logprob in zip(done.ids, done.logprobs, strict=True):
            while self.sampled >= self.allowed:
                await asyncio.sleep(0.001)
            self.sampled += 1
            if watch and watch(id, logprob):
                break
        return done


@contextmanager
def served(engine: Any, **options: Any) -> Iterator[tuple[Gateway, httpx2.Client]]:
    gateway = Gateway(engine, "m", **options)
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        yield gateway, client


def parts(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.long
def test_every_token_is_sent_when_it_is_sampled() -> None:
    """The next token is sampled only after the client has read the last: nothing waits for the end."""
    engine = Stepped("abcdef")
    with (
        served(engine) as (_, client),
        client.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as answer,
    ):
        engine.allowed, text, read = 1, "", []
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            if choice["delta"].get("content"):
                text += choice["delta"]["content"]
                read.append((text, engine.sampled))
            if choice["delta"].get("content") != "":
                engine.allowed += 1
    assert read == [("abcdef"[: n + 1], n + 1) for n in range(6)]


def test_a_stream_cut_in_the_middle_ends_its_request_and_leaves_no_turn() -> None:
    engine = HFEngine(tiny.model(), ByteTokenizer(), slots=4)
    with served(engine) as (gateway, client):
        body = {**BODY, "stream": True, "max_tokens": 480, "ignore_eos": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: ") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                    break
        for _ in range(10_000):
            if not engine._running and not engine._waiting:
                break
            client.get("/health")
        assert 0 < engine.decoded < 480 and gateway.sessions.open["s"].rows == []
        assert client.post("/v1/chat/completions", json={**BODY, "max_tokens": 4}).status_code == 200


class Failing(Stepped):
    """Fails after its third token with an error that no engine should raise."""

    async def generate(self, *args: Any, watch: Any = None, **options: Any) -> Any:
        self.allowed = 3
        for id in b"abc":
            watch(id, -1.0)
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("path", ["chat/completions", "messages", "responses"])
def test_a_stream_that_fails_inside_ends_with_an_error(path: str) -> None:
    """Whatever it was: the answer is whole, and says that the gateway failed."""
    body: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 8}
    body |= {"input": "hi"} if path == "responses" else {"messages": BODY["messages"]}
    with served(Failing("abc")) as (gateway, client):
        answer = client.post(f"/v1/{path}", json=body)
        last = parts(answer.text)[-1]
        assert "the gateway failed" in json.dumps(last) and "a bug" not in answer.text
        assert gateway.sessions.open["default"].running == 0


class Counted(str):
    """Text that counts how often it is compared with another."""

    comparisons = 0

    def endswith(self, *args: Any) -> bool:
        Counted.comparisons += 1
        return super().endswith(*args)

    def find(self, *args: Any) -> int:
        Counted.comparisons += 1
        return super().find(*args)


def test_the_beginning_of_a_stop_string_is_the_longest() -> None:
    texts = ["".join(letters) for length in range(8) for letters in itertools.product("ab", repeat=length)]
    for text, stop in itertools.product(texts, (text for text in texts if 0 < len(text) < 7)):
        lengths = [n for n in range(len(stop)) if text.endswith(stop[:n])]
        assert _begun(text, stop) == max(lengths)


def test_a_stop_string_costs_next_to_nothing_while_it_does_not_come() -> None:
    """It is looked for after every token of every choice, in the thread that serves all clients."""
    Counted.comparisons = 0
    assert _begun(Counted("so " * 1000), "z" * 1000) == 0
    assert Counted.comparisons <= 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("stop", "text"), [("cd", "ab"), (["zz", "ef"], "abcd"), ("abcdefg", "abcdef"), ("a", "")])
def test_a_stop_string_cuts_the_text_and_its_tokens_are_held(stop: Any, text: str, stream: bool) -> None:
    with served(ScriptedEngine(lambda prompt, turn: "abcdef")) as (gateway, client):
        answer = client.post("/v1/chat/completions", json={**BODY, "stop": stop, "stream": stream})
        got = parts(answer.text) if stream else [answer.json()]
        last = got[-1]["choices"][0]
        if stream:
            streamed = "".join(part["choices"][0]["delta"].get("content", "") for part in got)
            ids = [id for part in got for id in part["choices"][0].get("token_ids", ())]
        else:
            streamed, ids = last["message"]["content"], last["token_ids"]
        strings = [stop] if isinstance(stop, str) else stop
        stopped = next((string for string in strings if string in "abcdef"), None)
        end = "abcdef".index(stopped) + len(stopped) if stopped else None
        assert (streamed, last["finish_reason"], last["stop_reason"]) == (text, "stop", stopped)
        assert ids == (list(b"abcdef"[:end]) if stopped else [*b"abcdef", 258])
        past = [*BODY["messages"], {"role": "assistant", "content": streamed}, user("on")]  # pyright: ignore
        assert client.post("/v1/chat/completions", json={**BODY, "messages": past}).status_code == 200
        session = gateway.sessions.open["s"]
        (row,) = build([session.episode(1.0, True)])
        assert session.counts()["rows"] == 1 and session.drifted == 0
        assert row.trained == len(ids) + 7  # all that was sampled, and no end token that was not


LETTERS = st.text(st.sampled_from("ab<é日"), max_size=12)


@given(text=LETTERS, stops=st.lists(LETTERS.filter(bool), max_size=3))
def test_told_text_is_what_stands_before_the_first_stop_string(text: str, stops: list[str]) -> None:
    """Byte by byte, so that characters and stop strings come in halves."""
    streamed: list[str] = []
    sent: list[int] = []

    def hear(text: str, ids: list[int], logprobs: list[float]) -> None:
        streamed.append(text)
        sent.extend(ids)

    teller = ReplyStreamer(ByteTokenizer().decode, (258,), stops, hear=hear)
    ids = [*text.encode(), 258]
    used = next((n for n, id in enumerate(ids, 1) if teller.take(id, -1.0)), len(ids))
    rest = teller.rest(teller.end())
    ends = [(text.index(stop) + len(stop), stop) for stop in stops if stop in text]
    whole = text if not ends else text[: min(text.index(stop) for end, stop in ends if end == min(ends)[0])]
    assert "".join(streamed) + rest[0] == teller.text == whole
    assert sent + rest[1] == ids[:used]
    assert used == (len(text[: min(ends)[0]].encode()) if ends else len(ids))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_several_choices_are_rows_of_their_own_and_the_unused_are_context(stream: bool) -> None:
    with served(HFEngine(tiny.model(), ByteTokenizer(), slots=8)) as (gateway, client):
        body = {**BODY, "max_tokens": 6, "n": 3, "stream": stream, "stream_options": {"include_usage": True}}
        answer = client.post("/v1/chat/completions", json=body)
        texts = ["", "", ""]
        if stream:
            for choice in (choice for part in parts(answer.text) for choice in part["choices"]):
                texts[choice["index"]] += choice["delta"].get("content", "")
            assert parts(answer.text)[-1]["usage"]["completion_tokens"] > 3
        else:
            texts = [choice["message"]["content"] for choice in answer.json()["choices"]]
        assert len(set(texts)) == 3
        past = [*BODY["messages"], {"role": "assistant", "content": texts[1]}, user("on")]  # pyright: ignore
        client.post("/v1/chat/completions", json={**BODY, "messages": past, "max_tokens": 4})
        session = gateway.sessions.open["s"]
        assert sorted(len(row) for row in session.rows) == [1, 1, 2] and session.drifted == 0
        episode = session.episode(1.0, True)
        assert [turn.extra.get("train") for turn in episode.turns].count(False) == 2
        assert all(turn.extra.get("train") is None for row in session.rows if len(row) == 2 for turn in row)


@pytest.mark.parametrize("name", NAMES)
def test_a_forced_call_begins_in_the_prompt(name: str) -> None:
    """What the family decides about a call belongs to the prompt; what is sampled goes on from there."""
    family = NAMES[name]
    whole = call(family, query="b")
    more = {"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}
    for choice, rest in (
        ({"type": "function", "function": {"name": "search"}}, whole.partition("search")[2]),
        ("required", whole[whole.index("search") :]),
    ):
        cut = _after_head(whole, rest, choice)
        with talking(name, [cut]) as (gateway, ask):
            got = ask([user("x")], tools=[*TOOLS, more], tool_choice=choice)["choices"][0]
            assert got["finish_reason"] == "tool_calls", got
            (made,) = got["message"]["tool_calls"]
            assert made["function"]["name"] == "search" and json.loads(made["function"]["arguments"]) == {"query": "b"}
            (turn,) = gateway.sessions.open["s"].rows[0]
            assert gateway.template.encoder.decode(turn.output_ids).startswith(cut[:3])


def _after_head(whole: str, rest: str, choice: Any) -> str:
    """Return what a model samples after the head of a call."""
    if choice == "required":
        return rest
    for sign in ("{", "\n<arg_key>"):
        if sign in rest:
            return rest[rest.index(sign) :]
    raise AssertionError(rest)


def test_no_call_and_one_call() -> None:
    pair = call("hermes", query="a") + "\n" + call("hermes", query="b")
    with talking("qwen2_5", [pair, pair, "Yes."]) as (gateway, ask):
        text = ask([user("x")], tool_choice="none")["choices"][0]
        assert text["message"] == {"role": "assistant", "content": pair} and text["finish_reason"] == "stop"
        one = ask([user("y")], parallel_tool_calls=False)["choices"][0]
        (made,) = one["message"]["tool_calls"]
        assert json.loads(made["function"]["arguments"]) == {"query": "a"} and one["finish_reason"] == "tool_calls"
        assert gateway.template.encoder.decode(one["token_ids"]) == call("hermes", query="a") + "\n<tool_call>"
        result = {"role": "tool", "tool_call_id": made["id"], "content": "page"}
        ask([user("y"), one["message"], result])
        session = gateway.sessions.open["s"]
        assert [len(row) for row in session.rows] == [1, 2] and session.drifted == 0


def test_a_call_cannot_be_forced_on_a_model_that_thinks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with talking("qwen3", ["x"]) as (gateway, ask):
        ask([user("x")])
        (template,) = gateway._templates.values()
        monkeypatch.setattr(template, "opened", "<think>\n")
        assert "a call cannot be forced" in ask([user("x")], status=400, tool_choice="required")["error"]["message"]


def test_text_before_a_call_is_streamed_and_the_call_is_not_text() -> None:
    with talking("qwen2_5", ["Let me  look.\n" + call("hermes", query="a"), "<tool"]) as (_, ask):
        got = [part["choices"][0]["delta"] for part in parts(ask([user("x")], stream=True))]
        pieces = [delta["content"] for delta in got if delta.get("content")]
        assert len(pieces) > 2 and "".join(pieces) == "Let me  look." and sum("tool_calls" in delta for delta in got) == 2
        begun = parts(ask([user("y")], stream=True))
        assert "".join(part["choices"][0]["delta"].get("content", "") for part in begun) == "<tool"


class Recording(Stepped):
    """Never answers, and records what it is told."""

    def __init__(self) -> None:
        super().__init__("yes")
        self.events: list[str] = []

    async def generate(self, *args: Any, **options: Any) -> Any:
        self.events.append("generate")
        return await super().generate(*args, **options)

    def abort(self, session: str) -> None:
        self.events.append(f"abort {session}")
        super().abort(session)


@pytest.mark.parametrize(("options", "session"), [({}, "s/1"), ({"prompt_logprobs": 0}, "gateway score/0")])
def test_a_cancelled_request_is_aborted_in_the_engine(options: dict[str, Any], session: str) -> None:
    async def cancelled() -> None:
        raw = {"model": "m", "prompt": [1, 2], **options}
        request = read_request(raw, chat=False, default_tokens=4, size=64)
        asking = asyncio.ensure_future(Gateway(engine, "m").answer(request, "s"))
        while not engine.events:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    engine = Recording()
    asyncio.run(cancelled())
    assert engine.events == ["generate", f"abort {session}"]
