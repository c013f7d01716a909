"""Anthropic's Messages API, spoken by the package `anthropic` (2.14) to a local server: tools, thinking, caching, errors."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
import loopback

import agentgym
from agentgym.cli import main
from agentgym.engines import Completion, Sampling
from agentgym.engines.anthropic import AnthropicEngine, turns
from agentgym.episodes.episode import read_episodes
from agentgym.episodes.usage import Usage
from agentgym.errors import BadConfig, Fault

ASKED = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
KEY = "sk-ant-secret-0123456789"
THOUGHT = {"type": "thinking", "thinking": "hm, seven", "signature": "c2lnbmF0dXJl"}
COUNTED = {
    "input_tokens": 10,
    "cache_read_input_tokens": 50,
    "cache_creation_input_tokens": 5,
    "output_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 12},
}


def reply(*content: Any, stop: str = "end_turn", usage: Any = COUNTED) -> dict[str, Any]:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**about, "content": blocks, "stop_reason": stop, "usage": usage}


def call(id: str = "toolu_1", command: str = "7") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "act", "input": {"command": command}}


def refusal(status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Any:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return status, {"content-type": "application/json", **headers}, json.dumps(body).encode()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def served(script: list[Any], then: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    context = loopback.faulty(script, then=then)
    server, url = context.__enter__()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url.removesuffix("/v1"))
    return context, server


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    contexts: list[Any] = []

    def start(*script: Any, then: Any) -> loopback.Faulty:
        context, server = served(list(script), then, monkeypatch)
        contexts.append(context)
        return server

    yield start
    for context in contexts:
        context.__exit__(None, None, None)


def one(messages: Any = ASKED, tools: Any = (), limit: int = 8, **options: Any) -> Completion:
    engine = agentgym.engine("chat:anthropic/m", **{"backoff": 0.01, **options})
    assert isinstance(engine, AnthropicEngine)
    return asyncio.run(engine.chat(messages, tools, Sampling(max_tokens=limit), "s"))


def test_a_reply_with_its_thoughts_and_every_token(serve: Any) -> None:
    server = serve(then=reply(THOUGHT, "seven"))
    done = one()
    assert (done.text, done.finish, done.reasoning) == ("seven", "stop", "hm, seven")
    assert done.usage == Usage(65, 20, cached=50, written=5, reasoning=12)
    assert server.paths == ["/v1/messages"] and server.heads[0]["anthropic-version"]
    assert server.heads[0]["Authorization"] == f"Bearer {KEY}"  # the package's own choice; versions before sent x-api-key
    assert server.bodies[0] == {
        "model": "m",
        "system": "be brief",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "max_tokens": 8,
        "temperature": 1.0,
        "cache_control": {"type": "ephemeral"},
    }


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("max_tokens", "length"), ("refusal", "refusal"), ("tool_use", "stop"), ("model_context_window_exceeded", "context")],
)
def test_every_stop_reason(stop: str, finish: str, serve: Any) -> None:
    serve(then=reply("x", stop=stop))
    assert one().finish == finish


def test_an_evaluation_with_tools_sends_thoughts_back_with_their_signatures(serve: Any, tmp_path: Path) -> None:
    """Two calls in one reply, then text: blocks go back word for word, results under the ids of their calls."""
    first = reply(THOUGHT, "let me see", call("toolu_1", "7"), call("toolu_2", "8"), stop="tool_use")
    server = serve(first, reply("9"), then=reply("10"))
    out = tmp_path / "e"
    command = ["eval", "guessnumber", "--model", "chat:anthropic/claude-x", "--tasks", "1", "--tools", "native"]
    assert main([*command, "--out", str(out)]) == 0
    second, third = server.bodies[1]["messages"], server.bodies[2]["messages"]
    assert server.bodies[0]["tools"][0]["name"] == "act" and "input_schema" in server.bodies[0]["tools"][0]
    assert second[1] == {"role": "assistant", "content": first["content"]}
    assert [(block["type"], block["tool_use_id"]) for block in second[2]["content"]] == [
        ("tool_result", "toolu_1"),
        ("tool_result", "toolu_2"),
    ]
    assert [message["role"] for message in third] == ["user", "assistant", "user", "assistant", "user"]
    (episode,) = read_episodes(out / "episodes.jsonl")
    assert not episode.fault and episode.turns[0].reasoning == "hm, seven" and episode.turns[1].extra == {"call": 1}
    assert KEY not in "".join(path.read_text() for path in out.iterdir())
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["model"] == "chat:anthropic/claude-x" and options["server"].startswith("http://127.0.0.1:")


def test_thinking_is_asked_for_by_the_body_and_large_limits_do_not_stop_the_package(serve: Any) -> None:
    server = serve(then=reply("x"))
    thinking = {"type": "enabled", "budget_tokens": 50_000}
    assert one(limit=100_000, body={"thinking": thinking}).text == "x"
    assert server.bodies[0]["thinking"] == thinking and server.bodies[0]["max_tokens"] == 100_000


def test_troubles_are_met_and_retried_here_and_not_by_the_package(serve: Any) -> None:
    server = serve(
        refusal(529, "Overloaded", "overloaded_error"),
        refusal(429, "slow", **{"retry-after": "0.01"}),
        500,
        "half",
        then=reply("x"),
    )
    engine = agentgym.engine("chat:anthropic/m", backoff=0.01)
    assert asyncio.run(engine.chat(ASKED, (), Sampling(max_tokens=8), "s")).text == "x"  # type: ignore[union-attr]
    assert server.requests == 5 and engine.met == {  # type: ignore[union-attr]
        "status 529": 1,
        "status 429": 1,
        "status 500": 1,
        "a cut answer": 1,
    }


def test_a_server_that_is_too_slow_is_asked_again(serve: Any) -> None:
    serve("silent", then=reply("x"))
    assert one(timeout=0.5).text == "x"


@pytest.mark.parametrize(
    "content", [[], {"content": "x"}, reply("x", stop="because"), reply({"type": "tool_use", "id": "a"})]
)
def test_garbage_is_met_and_retried(content: Any, serve: Any) -> None:
    server = serve(content, then=reply("x"))
    assert one().text == "x" and server.requests == 2


def test_what_it_refuses(serve: Any) -> None:
    serve(refusal(401, "invalid x-api-key", "authentication_error"), then=reply("x"))
    with pytest.raises(BadConfig, match="check the key") as found:
        one()
    assert KEY not in str(found.value)
    serve(refusal(400, "`temperature` is deprecated for this model."), then=reply("x"))
    assert one().text == "x"
    serve(refusal(400, "max_tokens: 8 > 4, which is the maximum allowed number of output tokens for m"), then=reply("x"))
    with pytest.raises(BadConfig, match="--turn-tokens"):
        one()
    serve(refusal(400, "prompt is too long: 208310 tokens > 200000 maximum"), then=reply("x"))
    assert one().finish == "context"
    serve(refusal(400, "thinking: something about it"), then=reply("x"))
    with pytest.raises(BadConfig, match=r"--engine\.body\.thinking"):
        one(body={"thinking": {"type": "odd"}})
    serve(refusal(413, "request too large"), then=reply("x"))
    with pytest.raises(Fault):
        one()


def test_without_a_key_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(BadConfig, match="export ANTHROPIC_API_KEY="):
        agentgym.engine("chat:anthropic/m")


def test_a_conversation_in_its_form() -> None:
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": ""},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            "blocks": [THOUGHT, {"type": "tool_use", "id": "odd id", "name": "f", "input": {"a": 1}}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": ""},
        {"role": "assistant", "content": "(no reply)", "blocks": [THOUGHT]},
    ]
    assert turns(talk) == [
        {"role": "user", "content": [{"type": "text", "text": "(nothing)"}, {"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": ""}]},
        {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "(no reply)"}]},
    ]
