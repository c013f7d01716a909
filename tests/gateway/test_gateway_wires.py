"""Anthropic's Messages and OpenAI's Responses over real HTTP: one conversation inside, exact tokens, errors in shape."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import httpx2
import loopback
from native_talks import SOURCES, SURVEY
from test_gateway_replies import parts
from test_gateway_tools import SCHEMA, call

from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig
from agentgym.gateway import App, Gateway
from agentgym.gateway.app import App as Application
from agentgym.trainers.data.segments import build

KEY = "secret"
ANTHROPIC_TOOL = {"name": "search", "description": "Find pages.", "input_schema": SCHEMA}
OPENAI_TOOL = {"type": "function", "name": "search", "description": "Find pages.", "parameters": SCHEMA}


@contextmanager
def serving(reply: Any, key: str | None = None) -> Iterator[tuple[Gateway, Application, httpx2.Client]]:
    gateway = Gateway(ScriptedEngine(reply, SURVEY.tokenizer_for(SOURCES["qwen2_5"])), "m")
    app = App(gateway, key=key, body_bytes=1 << 20)
    with loopback.serving(app) as url, httpx2.Client(base_url=url, timeout=60) as client:
        yield gateway, app, client


def replies(prompt: str, turn: int) -> str:
    texts = [f"Look.\n{call('hermes', query='a', k=2)}", call("hermes", query="b"), " Plain é🙂.\n"]
    return texts[turn % 3]


def test_twenty_turns_over_each_api_are_one_row_and_nothing_drifts() -> None:
    """Whole and streamed by turns; JavaScript writes 2.0 for 2 and other white space; text stands after results."""
    with serving(replies) as (gateway, _, client):
        messages: list[Any] = [{"role": "user", "content": "go"}]
        for turn in range(20):
            body = {"model": "m", "max_tokens": 90, "messages": messages, "tools": [ANTHROPIC_TOOL], "system": "Be brief."}
            answer = client.post("/v1/messages", json={**body, "stream": turn % 2 == 1}, headers={"x-api-key": "x:messages"})
            assert answer.status_code == 200, answer.text
            content = _blocks(parts(answer.text)) if turn % 2 else answer.json()["content"]
            for block in content:
                if block["type"] == "tool_use":
                    block["input"] = {name: float(v) if type(v) is int else v for name, v in block["input"].items()}
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            heard: list[Any] = [{"type": "tool_result", "tool_use_id": id, "content": f"page {turn}"} for id in calls]
            heard += [{"type": "text", "text": f"more {turn}"}] if turn % 3 or not calls else []
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": heard}]
        sent: list[Any] = [{"role": "user", "content": "go"}]
        id, known = None, 0
        for turn in range(20):
            body = {"model": "m", "tools": [OPENAI_TOOL], "instructions": "Be brief.", "user": "responses"}
            if turn % 5 == 4:  # what was kept is what would have been sent
                body |= {"input": sent[known:], "previous_response_id": id}
            else:
                body["input"] = sent
            answer = client.post("/v1/responses", json={**body, "stream": turn % 2 == 1})
            assert answer.status_code == 200, answer.text
            got = parts(answer.text)[-1]["response"] if turn % 2 else answer.json()
            id, output = got["id"], got["output"]
            sent += [{"type": "reasoning", "summary": []}, *output]
            known = len(sent)
            calls = [item["call_id"] for item in output if item["type"] == "function_call"]
            sent += [{"type": "function_call_output", "call_id": id, "output": f"page {turn}"} for id in calls]
            sent += [] if calls else [{"role": "user", "content": [{"type": "input_text", "text": f"more {turn}"}]}]
        for name in ("messages", "responses"):
            session = gateway.sessions.open[name]
            counts = session.counts()
            assert (counts["turns"], counts["rows"], counts["drifted_tokens"]) == (20, 1, 0), (name, counts)
            (row,) = build([session.episode(1.0, True)])
            assert row.trained == counts["output_tokens"] and len(row) == counts["held_tokens"]


def _blocks(events: list[Any]) -> list[dict[str, Any]]:
    """Return the content that a stream of Anthropic's tells, as its client puts it together."""
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    blocks: list[dict[str, Any]] = []
    written: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                blocks[event["index"]]["text"] += delta["text"]
            else:
                written[event["index"]] = written.get(event["index"], "") + delta["partial_json"]
    for index, text in written.items():
        blocks[index]["input"] = json.loads(text)
    return blocks


def test_the_three_apis_make_the_same_prompt() -> None:
    with serving(lambda prompt, turn: "yes") as (gateway, _, client):
        chat = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
        tools = [{"type": "function", "function": {"name": "search", "description": "Find pages.", "parameters": SCHEMA}}]
        client.post("/v1/chat/completions", json={"model": "m", "messages": chat, "tools": tools, "user": "chat"})
        body = {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "S"}], "messages": chat[1:]}
        client.post("/v1/messages", json={**body, "tools": [ANTHROPIC_TOOL], "user": "messages"})
        counted = client.post("/v1/messages/count_tokens", json={**body, "tools": [ANTHROPIC_TOOL], "user": "none"})
        client.post(
            "/v1/responses", json={"model": "m", "instructions": "S", "input": "U", "tools": [OPENAI_TOOL], "user": "r"}
        )
        prompts = [session.rows[0][0].prompt_ids for session in gateway.sessions.open.values()]
        assert prompts[0] == prompts[1] == prompts[2] and counted.json() == {"input_tokens": len(prompts[0])}
        assert list(gateway.sessions.open) == ["chat", "messages", "r"]  # counting makes no session


def test_a_response_is_found_in_its_own_session_only_and_where_it_was_kept() -> None:
    with serving(lambda prompt, turn: "yes") as (gateway, _, client):
        stored = client.post(
            "/v1/responses", json={"model": "m", "input": "a", "user": "one", "instructions": "Old."}
        ).json()
        gone = client.post("/v1/responses", json={"model": "m", "input": "a", "user": "one", "store": False}).json()
        ask = {"model": "m", "input": "b", "user": "one", "instructions": "New."}
        for id, user, status in ((stored["id"], "one", 200), (stored["id"], "two", 400), (gone["id"], "one", 400)):
            answer = client.post("/v1/responses", json={**ask, "previous_response_id": id, "user": user})
            assert answer.status_code == status, answer.text
        prompt = gateway.template.encoder.decode(gateway.sessions.open["one"].rows[-1][-1].prompt_ids)
        assert "New." in prompt and "Old." not in prompt and "yes" in prompt


HI = [{"role": "user", "content": "hi"}]
M: dict[str, Any] = {"model": "m", "max_tokens": 4, "messages": HI}
R: dict[str, Any] = {"model": "m", "input": "hi"}
BAD_MESSAGES: list[dict[str, Any]] = [
    {}, {"model": "m", "messages": HI}, {**M, "messages": None}, {**M, "messages": [3]}, {**M, "messages": []},
    {**M, "messages": [{"role": "king", "content": "x"}]}, {**M, "messages": [{"role": "user", "content": 3}]},
    {**M, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
    {**M, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]},
    {**M, "messages": [{"role": "user", "content": [{"type": "text"}]}]}, {**M, "system": {"a": 1}},
    {**M, "tools": {"a": 1}},
    {**M, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "c"}]}]},
    {**M, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, {**M, "tools": [{"name": "a"}]},
    {**M, "tool_choice": {"type": "any"}}, {**M, "tool_choice": "auto"}, {**M, "stop_sequences": [""]},
    {**M, "thinking": {"type": "enabled", "budget_tokens": 1024}}, {**M, "mcp_servers": [{"url": "x"}]}, {**M, "stream": 1},
    {**M, "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, {**M, "max_tokens": 10**30},
    {**M, "output_config": {"format": {"type": "json_schema"}}},
]  # fmt: skip
BAD_RESPONSES: list[dict[str, Any]] = [
    {}, {"model": "m"}, {**R, "input": 3}, {**R, "input": [3]}, {**R, "input": []}, {**R, "input": [{"role": "user"}]},
    {**R, "input": [{"type": "item_reference", "id": "x"}]},
    {**R, "input": [{"role": "user", "content": [{"type": "input_image"}]}]},
    {**R, "input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, {**R, "input": [{"type": {}}]},
    {**R, "input": [{"type": "function_call", "call_id": 3}]}, {**R, "tools": [{"type": "web_search"}]},
    {**R, "tools": [None]},
    {**R, "tool_choice": {"type": "web_search"}}, {**R, "tool_choice": 3}, {**R, "text": 3},
    {**R, "previous_response_id": {}},
    {**R, "background": True}, {**R, "truncation": "auto"}, {**R, "include": ["message.output_text.logprobs"]},
    {**R, "text": {"format": {"type": "json_schema", "name": "x"}}}, {**R, "reasoning": {"effort": "high"}},
    {**R, "instructions": 3}, {**R, "max_output_tokens": "many"}, {**R, "conversation": "c"}, {**R, "user": 3},
]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with serving(lambda prompt, turn: "yes") as (_, _, client):
        yield client


@pytest.mark.parametrize("number", range(len(BAD_MESSAGES)))
def test_bad_messages_are_refused_in_anthropics_form(number: int, client: httpx2.Client) -> None:
    answer = client.post("/v1/messages", json=BAD_MESSAGES[number])
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "error" and answer.json()["error"]["type"] == "invalid_request_error"
    assert 5 < len(answer.json()["error"]["message"]) < 600


@pytest.mark.parametrize("number", range(len(BAD_RESPONSES)))
def test_bad_responses_are_refused_in_openais_form(number: int, client: httpx2.Client) -> None:
    answer = client.post("/v1/responses", json=BAD_RESPONSES[number])
    assert answer.status_code == 400, answer.text
    assert (
        set(answer.json()["error"]) == {"message", "type", "param", "code"} and len(answer.json()["error"]["message"]) < 600
    )


def test_other_errors_have_the_form_too(client: httpx2.Client) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert client.post(path, json={**M, "model": "other"}).json()["error"]["type"] == "not_found_error"
    big = client.post("/v1/messages", json={**M, "system": "x" * (1 << 20)})
    assert (big.status_code, big.json()["error"]["type"]) == (413, "request_too_large")
    for path in ("/v1/messages", "/v1/responses", "/v1/chat/completions"):
        for content in (b"[" * 100_000, b'{"messages": ' + b'{"a":' * 50_000, b"nothing", b"\xff"):
            answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400 and "error" in answer.json()
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    body = b'{"model": "m", "max_tokens": 4, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", '
    body += b'"name": "b", "input": ' + deep + b'}]}, {"role": "user", "content": "x"}]}'
    assert client.post("/v1/messages", content=body, headers={"Content-Type": "application/json"}).status_code == 400
    tool = b'{"name": "t", "input_schema": {"properties": ' + deep + b"}}"
    body = b'{"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "x"}], "tools": [' + tool + b"]}"
    answer = client.post("/v1/messages", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400)  # as deep as it can be written again
    assert client.post("/v1/messages", json=M).status_code == 200


def test_no_agent_ends_a_session_or_speaks_in_another() -> None:
    """A key that names a session ends no other; one for an agent ends none, and is good for no other name."""
    with serving(lambda prompt, turn: "yes", KEY) as (gateway, app, client):
        agent, other = app.session_key("a"), app.session_key("b").partition(":")[0] + ":a"
        for key, status in ((agent, 200), (other, 401), (KEY[:-1], 401), ("", 401), (f"{KEY}:b", 200), (f"{agent}:b", 401)):
            assert client.post("/v1/messages", json=M, headers={"x-api-key": key}).status_code == status, key
            bearer = {"Authorization": f"Bearer {key}"} if key else {}
            assert client.post("/v1/responses", json=R, headers=bearer).status_code == status, key
        assert list(gateway.sessions.open) == ["a", "b"]
        for key, name, status in (
            (agent, "a", 403), (agent, "b", 403), (f"{KEY}:b", "a", 403), (f"{KEY}:a", "a", 200), (KEY, "b", 200),
        ):  # fmt: skip
            answer = client.post(f"/v1/sessions/{name}/finish", json={"reward": 1}, headers={"x-api-key": key})
            assert answer.status_code == status, (key, name, answer.text)
        client.post("/v1/messages", json=M, headers={"x-api-key": agent})
        client.post("/v1/messages", json=M, headers={"x-api-key": f"{KEY}:b"})
        listed = client.get("/v1/sessions", headers={"x-api-key": agent}).json()
        assert [session["id"] for session in listed["data"]] == ["a"] and "total" not in listed
        response = client.post("/v1/sessions/a/key", json={}, headers={"x-api-key": KEY})
        assert response.json() == {"api_key": agent}
        assert client.post("/v1/sessions/b/key", json={}, headers={"x-api-key": agent}).status_code == 403


def test_where_there_is_no_key_none_is_given_to_an_agent() -> None:
    """It would keep nobody from anything: whoever sends no key may finish every session."""
    with serving(lambda prompt, turn: "yes") as (_, app, client):
        assert client.post("/v1/messages", json=M).status_code == 200
        answer = client.post("/v1/sessions/default/key", json={})
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "no_key"
        with pytest.raises(BadConfig, match="this gateway has no key"):
            app.session_key("default")


def test_two_clients_on_one_key_disturb_each_other_in_nothing() -> None:
    """They talk at once in one session, each its own conversation, one of them streaming."""
    with serving(replies) as (gateway, _, client):
        failed: list[str] = []

        def talk(first: str, stream: bool) -> None:
            messages: list[Any] = [{"role": "user", "content": first}]
            for turn in range(8):
                body = {
                    "model": "m",
                    "messages": messages,
                    "tools": [{"type": "function", "function": OPENAI_TOOL}],
                    "user": "s",
                }
                answer = client.post("/v1/chat/completions", json={**body, "stream": stream})
                if answer.status_code != 200:
                    failed.append(answer.text)
                    return
                deltas = [part["choices"][0]["delta"] for part in parts(answer.text)] if stream else []
                message = _put_together(deltas) if stream else answer.json()["choices"][0]["message"]
                messages.append(message)
                messages.extend(
                    {"role": "tool", "tool_call_id": made["id"], "content": f"{turn}"}
                    for made in message.get("tool_calls", ())
                )
                messages.extend([] if message.get("tool_calls") else [{"role": "user", "content": f"on {turn}"}])

        threads = [threading.Thread(target=talk, args=(text, text == "b")) for text in "ab"]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        counts = gateway.sessions.open["s"].counts()
        assert not failed and (counts["turns"], counts["rows"], counts["drifted_tokens"]) == (16, 2, 0)


def _put_together(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    calls: list[Any] = []
    for delta in (made for one in deltas for made in one.get("tool_calls", ())):
        if "id" in delta:
            calls.append({"id": delta["id"], "type": "function", "function": dict(delta["function"])})
        else:
            calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]
    text = "".join(one.get("content") or "" for one in deltas)
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def test_a_client_that_edits_its_history_begins_a_new_row_and_drifts_nothing() -> None:
    with serving(replies) as (gateway, _, client):
        ask = {"model": "m", "max_tokens": 60, "tools": [ANTHROPIC_TOOL], "user": "s"}
        first = client.post("/v1/messages", json={**ask, "messages": HI}).json()["content"]
        result = {"type": "tool_result", "tool_use_id": first[-1]["id"], "content": "r"}
        edited = [{**first[0], "text": "Other."}, {**first[-1], "input": {"query": "changed"}}]
        for history in (first, edited, first):
            past = [*HI, {"role": "assistant", "content": history}, {"role": "user", "content": [result]}]
            assert client.post("/v1/messages", json={**ask, "messages": past}).status_code == 200
        session = gateway.sessions.open["s"]
        assert [len(row) for row in session.rows] == [2, 1, 1] and session.drifted == 0
        assert '"changed"' in gateway.template.encoder.decode(session.rows[1][0].prompt_ids)
