"""`response_format` over all three APIs: told to the model, sampled freely, held exactly."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import httpx2
import loopback
from test_gateway_replies import parts
from test_gateway_tools import NAMES, call, talking

from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.gateway import App, Gateway
from agentgym.gateway.forms import read_form
from agentgym.trainers.data.segments import build

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
ANY = {"type": "json_object"}
REPLY = '{"city": "Oslo"}'
JSON = {"Content-Type": "application/json"}


@contextmanager
def served(reply: Any, **options: Any) -> Iterator[tuple[Gateway, httpx2.Client]]:
    gateway = Gateway(ScriptedEngine(reply if callable(reply) else lambda prompt, turn: reply), "m", **options)
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:
        yield gateway, client


def chat(client: httpx2.Client, messages: list[dict[str, Any]], form: Any = NAMED, **more: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": messages, "response_format": form, "user": "s", **more}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]


def prompts(gateway: Gateway, session: str = "s") -> list[str]:
    decode = gateway.template.encoder.decode
    return [decode(turn.prompt_ids) for row in gateway.sessions.open[session].rows for turn in row]


def test_the_model_is_told_once_and_what_goes_on_extends() -> None:
    with served(REPLY) as (gateway, client):
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
        for turn in range(3):
            answer = chat(client, messages)
            assert json.loads(answer["content"]) == {"city": "Oslo"}
            messages += [answer, {"role": "user", "content": f"And {turn}?"}]
        session = gateway.sessions.open["s"]
        assert session.counts()["rows"] == 1 and session.counts()["drifted_tokens"] == 0
        last = prompts(gateway)[-1]
        assert last.count("JSON Schema") == 1 and json.dumps(SCHEMA) in last
        assert last.index("Be brief.") < last.index(json.dumps(SCHEMA)) < last.index("Where?")
        (row,) = build([session.episode(1.0, True)])
        assert row.trained == 3 * (len(REPLY) + 1)  # sampled freely, so trained


def test_another_form_is_another_past() -> None:
    with served(REPLY) as (gateway, client):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
        messages += [chat(client, messages), {"role": "user", "content": "And?"}]
        chat(client, messages, ANY)
        chat(client, messages, {"type": "text"})
        chat(client, messages, NAMED)  # goes on from the first
        session = gateway.sessions.open["s"]
        assert session.counts()["rows"] == 3 and session.counts()["drifted_tokens"] == 0
        first, goes_on, other, plain = prompts(gateway)
        assert goes_on.startswith(first) and "JSON Schema" in first
        assert "JSON" in other and "JSON Schema" not in other and "JSON" not in plain


def test_a_reply_that_is_no_json_is_the_models_own() -> None:
    with served("Oslo, I think") as (gateway, client):
        assert chat(client, [{"role": "user", "content": "Where?"}])["content"] == "Oslo, I think"
        (turn,) = gateway.sessions.open["s"].episode(0.0, False).turns
        assert turn.text == "Oslo, I think" and turn.extra.get("train") is not False


@pytest.mark.parametrize("stream", [False, True])
def test_a_thought_is_held_and_not_told(stream: bool) -> None:
    with served(f"<think>\nNorway\n</think>\n\n{REPLY}") as (gateway, client):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
        if stream:
            body = {"model": "m", "messages": messages, "response_format": NAMED, "user": "s", "stream": True}
            got = parts(client.post("/v1/chat/completions", json=body).text)
            text = "".join(part["choices"][0]["delta"].get("content", "") for part in got)
        else:
            text = chat(client, messages)["content"]
        assert text == REPLY
        chat(client, [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": "Sure?"}])
        counts = gateway.sessions.open["s"].counts()
        assert counts["rows"] == 1 and counts["drifted_tokens"] == 0 and "Norway" in prompts(gateway)[-1]


def test_an_object_that_spells_a_thought_stays_whole() -> None:
    reply = '{"title": "<think>x</think> in HTML"}'
    with served(reply) as (_, client):
        assert chat(client, [{"role": "user", "content": "Where?"}])["content"] == reply


@pytest.mark.parametrize("inner", [{"schema": {"title": "\ud800"}}, {"schema": {}, "description": "\udfff"}])
def test_half_a_character_in_a_schema_is_held(inner: dict[str, Any]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", **inner}}
    with served(REPLY) as (gateway, client):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
        for _ in range(2):
            body = {"model": "m", "messages": messages, "response_format": form, "user": "s"}
            answer = client.post("/v1/chat/completions", content=json.dumps(body), headers=JSON)
            assert answer.status_code == 200, answer.text
            messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": "And?"}]
        assert gateway.sessions.open["s"].counts()["rows"] == 1


def test_all_apis_ask_the_same() -> None:
    with served(REPLY) as (gateway, client):
        messages = [{"role": "user", "content": "Where?"}]
        chat(client, messages)
        flat = {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}
        body: dict[str, Any] = {"model": "m", "input": "Where?", "text": {"format": flat}}
        answer = client.post("/v1/responses", json=body, headers={"X-Session-Id": "r"}).json()
        assert answer["text"] == {"format": flat} and answer["output"][0]["content"][0]["text"] == REPLY
        for name, option in (("a", {"output_config": {"format": flat}}), ("b", {"output_format": flat})):
            body = {"model": "m", "max_tokens": 64, "messages": messages, **option}
            answer = client.post("/v1/messages", json=body, headers={"X-Session-Id": name}).json()
            assert answer["content"] == [{"type": "text", "text": REPLY}]
        assert len({tuple(prompts(gateway, name)) for name in "srab"}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_with_tools_a_reply_is_a_call_or_of_the_form(name: str) -> None:
    with talking(name, [call(NAMES[name]), REPLY]) as (gateway, ask):
        messages: list[Any] = [{"role": "user", "content": "Where?"}]
        message = ask(messages, response_format=NAMED)["choices"][0]["message"]
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Norway"}]
        answer = ask(messages, response_format=NAMED)["choices"][0]["message"]
        assert answer["content"] == REPLY
        counts = gateway.sessions.open["s"].counts()
        assert counts["rows"] == 1 and counts["drifted_tokens"] == 0
        assert prompts(gateway)[-1].count("Unless you call a tool, reply with one JSON object") == 1


@pytest.mark.parametrize(
    "form",
    [
        *({"type": "grammar"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "x"}}, "json", 3),
        *({"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}, {"type": "text", "schema": {}}),
        {"type": "json_schema", "json_schema": {"name": "x", "schema": [], "strict": "yes"}},
    ],
)
def test_what_is_no_form_is_refused(form: Any) -> None:
    with pytest.raises(ValueError, match="response_format"):
        read_form(form)
    with served(REPLY) as (gateway, client):
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "response_format": form}
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "response_format"
        body = {"model": "m", "prompt": "hi", "response_format": ANY}
        assert client.post("/v1/completions", json=body).status_code == 400
        assert not gateway.counts().get("turns")


def test_a_schema_can_become_no_control_token() -> None:
    with served(REPLY) as (gateway, client):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"title": "<|im_end|>"}}}
        chat(client, [{"role": "user", "content": "hi"}], form)
        (row,) = gateway.sessions.open["s"].rows
        ends = [id for id in row[0].prompt_ids if id == ByteTokenizer.eos_token_id]
        assert len(ends) == 1 and "<|im_end|>" in prompts(gateway)[0].partition("JSON Schema")[2]
