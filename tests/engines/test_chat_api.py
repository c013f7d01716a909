"""Chat servers as they are met: parameters that they refuse, what they count, thoughts, bodies, headers, queries."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")
import loopback

import agentgym
from agentgym.cli import main
from agentgym.core.provenance import command_line
from agentgym.engines import Completion, Sampling, nested
from agentgym.engines.openai.chat import OpenAIChatEngine
from agentgym.engines.openai.http import Refused
from agentgym.engines.openai.refusals import named_parameter
from agentgym.episodes.episode import Episode, Turn, read_episodes
from agentgym.episodes.usage import Usage, from_extra, to_extra
from agentgym.errors import BadConfig, Fault

ASKED = [{"role": "user", "content": "hello"}]
SECRET = "sk-very-secret-0123456789"
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 7},
    "completion_tokens_details": {"reasoning_tokens": 30},
    "cost": 0.0125,
}


def reply(text: str | None = "7", finish: str = "stop", usage: Any = USAGE, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


def refusal(message: str, param: str | None = None, status: int = 400) -> tuple[int, dict[str, str], bytes]:
    return status, {}, json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": param}}).encode()


def client(url: str, **options: Any) -> OpenAIChatEngine:
    return OpenAIChatEngine(f"{url}#m", **{"backoff": 0.01, **options})


def one(engine: OpenAIChatEngine, messages: Any = ASKED, **sampling: Any) -> Completion:
    return asyncio.run(engine.chat(messages, (), Sampling(**{"max_tokens": 8, **sampling}), "s"))


def strict(**refused: str) -> Any:
    """A server that refuses some parameters, each in the words of its own."""

    def answer(body: dict[str, Any]) -> Any:
        for name, words in refused.items():
            if name in body:
                return refusal(words, name)
        return reply()

    return answer


O_SERIES = strict(
    max_tokens="Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    temperature="Unsupported value: 'temperature' does not support 0.4 with this model. Only the default (1) value is "
    "supported.",
    seed="Unknown parameter: 'seed'.",
)


def evaluated(url: str, out: Path, *flags: str) -> int:
    command = ["eval", "guessnumber", "--model", f"chat:{url}#m", "--tasks", "4", "--concurrency", "4", "--out", str(out)]
    return main([*command, *flags])


def test_a_model_that_refuses_parameters_is_played_without_them_and_the_manifest_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loopback.faulty([], then=O_SERIES) as (server, url):
        assert evaluated(url, tmp_path / "e") == 0
    assert not any(episode.fault for episode in read_episodes(tmp_path / "e" / "episodes.jsonl"))
    adapted = {"max_tokens": "sent as max_completion_tokens", "temperature": "left out", "seed": "left out"}
    manifest = json.loads((tmp_path / "e" / "manifest.json").read_text())
    assert manifest["sessions"][0]["adapted"] == adapted
    assert "max_tokens (sent as max_completion_tokens)" in capsys.readouterr().out
    last = server.bodies[-1]
    assert last["max_completion_tokens"] == 4096 and not {"max_tokens", "temperature", "seed"} & {*last}


def test_a_temperature_that_was_asked_for_is_never_dropped_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loopback.faulty([], then=O_SERIES) as (_, url):
        assert evaluated(url, tmp_path / "e", "--temperature", "0.4") == 2
        errors = capsys.readouterr().err
        assert "--engine.omit temperature" in errors and "Only the default (1) value" in errors
        assert evaluated(url, tmp_path / "f", "--temperature", "0.4", "--engine.omit", "temperature") == 0


@pytest.mark.parametrize(
    ("words", "param", "options", "flag"),
    [
        (
            "max_tokens is too large: 4096. This model supports at most 2048 completion tokens",
            "max_tokens",
            {},
            "--turn-tokens",
        ),
        ("'max_tokens' is too large: 8. This model's maximum context length is 4 tokens", None, {}, "--turn-tokens"),
        ("Unknown parameter: 'top_a'.", "top_a", {"body": {"top_a": 1}}, "--engine.body.top_a"),
        ("bad", "reasoning.effort", {"body": {"reasoning": {"effort": "odd"}}}, "--engine.body.reasoning"),
    ],
)
def test_a_value_that_is_refused_stops_the_run_with_its_flag(words: str, param: Any, options: Any, flag: str) -> None:
    with loopback.faulty([], then=refusal(words, param)) as (server, url), pytest.raises(BadConfig, match=flag):
        one(client(url, **options))
    assert server.requests == 1


def test_a_server_that_takes_neither_name_of_the_limit_is_not_asked_for_ever() -> None:
    answer = strict(max_tokens="Unknown parameter: 'max_tokens'", max_completion_tokens="Unknown: 'max_completion_tokens'")
    with loopback.faulty([], then=answer) as (server, url), pytest.raises(BadConfig, match="max_completion_tokens"):
        one(client(url))
    assert server.requests == 2


def test_many_requests_at_once_adapt_together() -> None:
    async def ask(engine: OpenAIChatEngine) -> list[Completion]:
        return await asyncio.gather(*(engine.chat(ASKED, (), Sampling(max_tokens=8), str(n)) for n in range(16)))

    with loopback.faulty([], then=O_SERIES) as (_, url):
        engine = client(url)
        assert {done.text for done in asyncio.run(ask(engine))} == {"7"}
    assert sorted(engine.adapted) == ["max_tokens", "seed", "temperature"]


BODY = {"model": "m", "messages": [], "max_tokens": 8, "temperature": 1.0, "seed": 3, "n": 1, "user_id": 4}


@pytest.mark.parametrize(
    ("content", "first", "expected"),
    [
        ({"error": {"message": "x", "param": "temperature"}}, False, "temperature"),
        ({"error": {"message": "temperature: Input should be at most 1"}}, True, "temperature"),  # Anthropic's form
        ({"error": {"message": "`seed` is deprecated"}}, True, "seed"),
        ({"detail": [{"loc": ["body", "user_id"], "msg": "extra"}]}, True, "user_id"),  # FastAPI's
        ({"error": {"message": "messages.2: no temperature in here"}}, False, None),  # the model's words, perhaps
        ({"error": {"message": "a model of n parts", "param": "messages[1].content"}}, True, None),
        ({"error": {"message": "x", "param": "messages.1.reasoning_content"}}, False, "reasoning_content"),
        (["no object"], True, None),
    ],
)
def test_the_parameter_that_a_refusal_names(content: Any, first: bool, expected: str | None) -> None:
    assert named_parameter(Refused("", 400, json.dumps(content).encode()), BODY, first=first) == expected


def test_a_refusal_that_quotes_the_model_ends_no_evaluation() -> None:
    """A later request holds the model's words, and a sentence about `temperature` may be theirs."""
    talk = [*ASKED, {"role": "assistant", "content": "temperature"}, *ASKED]
    with loopback.faulty([], then=refusal("I do not like 'temperature'")) as (_, url):
        engine = client(url)
        with pytest.raises(Fault) as found:
            one(engine, talk)
    assert not isinstance(found.value, BadConfig) and not engine.adapted


def test_every_token_is_counted_where_it_belongs(tmp_path: Path) -> None:
    with loopback.faulty([], then=reply(reasoning_content="hm")) as (_, url):
        assert one(client(url)).usage == Usage(100, 40, cached=60, written=7, reasoning=30, cost=0.0125)
        assert evaluated(url, tmp_path / "e") == 0
    turn = read_episodes(tmp_path / "e" / "episodes.jsonl")[0].turns[0]
    assert from_extra(turn.extra) == Usage(100, 40, 60, 7, 30, 0.0125) and turn.reasoning == "hm"
    assert 0 < turn.extra["request_seconds"] < 30


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}, Usage(9, 2, cached=5)),  # DeepSeek
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None, "cost": "1"}, Usage(9, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": float("nan")}, Usage(9, 2)),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
        (None, None),
        ({"prompt_tokens": 10**400, "completion_tokens": 2}, None),  # no float holds it
        ({"prompt_tokens": 9, "completion_tokens": 10**9 + 1}, None),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": 10**400}, Usage(9, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": 1e308}, Usage(9, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": -1}, Usage(9, 2)),
        (  # more of a kind than there are
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 99, "cache_write_tokens": 99},
                "completion_tokens_details": {"reasoning_tokens": 99},
            },
            Usage(9, 2, cached=9, written=0, reasoning=2),
        ),
        (  # xAI: reasoning is no part of the completion's tokens, and is paid for
            {
                "prompt_tokens": 12,
                "completion_tokens": 1,
                "total_tokens": 399,
                "completion_tokens_details": {"reasoning_tokens": 386},
            },
            Usage(12, 387, reasoning=386),
        ),
        ({"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553}, Usage(20, 533, reasoning=382)),  # Gemini
        ({"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 30}, Usage(20, 151)),
    ],
)
def test_odd_usage(usage: Any, expected: Usage | None) -> None:
    with loopback.faulty([], then=reply(usage=usage)) as (_, url):
        assert one(client(url)).usage == expected


def test_numbers_that_no_float_holds_end_no_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"prompt_tokens": 10**400, "completion_tokens": 10**400, "cost": 10**400}
    with loopback.faulty([], then=reply(usage=usage)) as (_, url):
        assert evaluated(url, tmp_path / "e") == 0
    assert "the server did not count the tokens of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "finish"), [("eos", "stop"), ("eos_token", "stop"), ("model_length", "length"), ("tool_calls", "stop")]
)
def test_the_finish_reasons_of_other_servers(reason: str, finish: str) -> None:
    with loopback.faulty([], then=reply(finish=reason)) as (server, url):
        assert one(client(url)).finish == finish and server.requests == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"message": "upstream died", "code": 502}}, r"an error with status 200 \(.*upstream died"),
        ({"choices": [{**reply(finish="error")["choices"][0], "error": {"message": "no capacity"}}]}, "no capacity"),
        (reply(finish="because"), "finish_reason is 'because'; expected one of stop, length"),
        ({"choices": reply()["choices"] * 2}, "2 choices; expected one"),
        ({}, "no choices; expected one"),
    ],
)
def test_an_answer_that_is_none_is_said_in_the_servers_words(answer: Any, words: str) -> None:
    with loopback.faulty([], then=answer) as (_, url), pytest.raises(Fault, match=f"2 attempts: 2 x .*{words}"):
        one(client(url, retries=1))


def test_usage_of_a_strangers_file() -> None:
    whole = Usage(9, 2, 1, 1, 1, 0.5)
    assert from_extra(to_extra(whole, 0.1)) == whole and from_extra(to_extra(None, 0.0)) is None
    assert from_extra({"completion_tokens": -1, "prompt_tokens": 3}) is None
    assert from_extra({"completion_tokens": 1, "prompt_tokens": 3, "cost": float("inf")}) == Usage(3, 1)
    assert from_extra({"completion_tokens": 10**400, "prompt_tokens": 3}) is None
    assert from_extra({"completion_tokens": 1, "prompt_tokens": 3, "cost": 10**400}) == Usage(3, 1)


def test_thoughts_are_stored_once_and_only_where_there_are_some() -> None:
    episode = Episode("e", "t", "g", 0, turns=[Turn("o", text="a", reasoning="because"), Turn("p", text="b")])
    line = episode.to_json()
    assert line.count('"reasoning"') == 1 and Episode.from_json(line).turns[0].reasoning == "because"
    with pytest.raises(agentgym.errors.BadData):
        Episode.from_json(line.replace('"because"', "[1]"))


def second_request(**message: Any) -> list[dict[str, Any]]:
    """Play two turns, the first with a call, and return the messages of the second request."""
    call = {"id": "a", "type": "function", "function": {"name": "act", "arguments": '{"command": "7"}'}}
    with loopback.faulty([reply(None, tool_calls=[call], **message)], then=reply("7")) as (server, url):
        agent = agentgym.MessageAgent(client(url), tools="native")
        agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=1, horizon=2)
    return server.bodies[1]["messages"]


def test_reasoning_goes_back_with_calls_as_deepseek_and_openrouter_want_it() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "id": "r1"}]
    sent = second_request(reasoning_content="I guess", reasoning_details=details)
    assert sent[-2]["reasoning_content"] == "I guess" and sent[-2]["reasoning_details"] == details
    assert sent[-2]["tool_calls"][0]["id"] == "a"


def test_reasoning_does_not_go_back_without_calls_nor_where_the_server_refuses_it() -> None:
    with loopback.faulty([reply("7", reasoning_content="I guess")], then=reply("8")) as (server, url):
        agentgym.collect(agentgym.MessageAgent(client(url)), "rlvr/GuessNumber-v0", tasks=1, horizon=2)
    assert "reasoning_content" not in str(server.bodies[1])
    talk = [*ASKED, {"role": "assistant", "content": "x", "reasoning_content": "y"}, *ASKED]
    answer = refusal("extra", "messages.1.reasoning_content")
    with loopback.faulty([answer], then=reply()) as (server, url):
        engine = client(url)
        assert one(engine, talk).text == "7" and engine.adapted == {"reasoning_content": "left out"}
    assert "reasoning_content" in str(server.bodies[0]) and "reasoning_content" not in str(server.bodies[1])


def test_reasoning_is_no_longer_than_a_reply() -> None:
    with loopback.faulty([], then=reply("7", reasoning_content="x" * 10_000)) as (_, url):
        assert len(one(client(url)).reasoning) == 256 + 64 * 8


def test_body_header_and_query_reach_the_server_and_no_secret_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZURE_KEY", SECRET)
    with loopback.faulty([], then=reply(f"I heard {SECRET} and tok-abcdefgh")) as (server, url):
        command = ["eval", "guessnumber", "--model", f"chat:{url}/deployments/d?api-version=2026-01-01#m", "--tasks", "1"]
        command += ["--out", str(tmp_path / "e"), "--engine.key_env", "AZURE_KEY", "--engine.key_header", "api-key"]
        command += ["--engine.header.X-My-Team", "tok-abcdefgh", "--engine.body.reasoning.effort", "high"]
        monkeypatch.setattr("sys.argv", ["agentgym", *command])
        assert main([*command, "--engine.body.top-k", "5", "--engine.body.api_key", "in-the-body"]) == 0
    assert server.paths[-1] == "/v1/deployments/d/chat/completions?api-version=2026-01-01"
    head, body = server.heads[-1], server.bodies[-1]
    assert head["api-key"] == SECRET and head["X-My-Team"] == "tok-abcdefgh" and head["Authorization"] is None
    assert body["reasoning"] == {"effort": "high"} and body["top-k"] == 5 and body["api_key"] == "in-the-body"
    options = json.loads((tmp_path / "e" / "manifest.json").read_text())["options"]
    assert options["body"] == {"reasoning": {"effort": "high"}, "top-k": 5, "api_key": "***"}
    assert options["headers"] == ["X-My-Team"] and options["model"].endswith("?api-version=2026-01-01#m")
    captured = capsys.readouterr()
    written = captured.out + captured.err + "".join(path.read_text() for path in (tmp_path / "e").iterdir())
    assert SECRET not in written and "tok-abcdefgh" not in written and "in-the-body" not in written


def test_headers_and_keys_are_left_out_of_a_recorded_command() -> None:
    words = [
        "/usr/bin/agentgym",
        "eval",
        "x",
        "--engine.header.X-Team",
        "abc",
        "--engine.body.api_key=s",
        "--engine.header.Y=z",
    ]
    assert command_line(words)[3:] == ["--engine.header.X-Team", "***", "--engine.body.api_key=***", "--engine.header.Y=***"]


@pytest.mark.parametrize(
    "target", ["http://h/v1?api_key=x", "http://h/v1?sig=x", "http://h/v1?code=x", "http://me:word@h/v1", "http://[/v1"]
)
def test_an_address_with_a_secret_is_refused(target: str) -> None:
    with pytest.raises(BadConfig, match=r"key_env|no address"):
        OpenAIChatEngine(f"{target}#m")


@pytest.mark.parametrize(
    "options",
    [
        {"body": {"messages": []}},
        {"body": {"max_tokens": 3}},
        {"body": {"x": float("nan")}},
        {"header": {"bad name": "x"}},
        {"header": {"x": "a\nb"}},
    ],
)
def test_bodies_and_headers_that_are_none(options: Any) -> None:
    with pytest.raises(BadConfig, match=r"engine\.(body|header)"):
        OpenAIChatEngine("http://127.0.0.1:1/v1#m", **options)


def test_dotted_options_are_tables() -> None:
    assert nested({"a": 1, "body.x.y": 2, "body.x.z": 3}) == {"a": 1, "body": {"x": {"y": 2, "z": 3}}}
    with pytest.raises(BadConfig, match="no table"):
        nested({"body": 1, "body.x": 2})


def test_a_name_of_a_provider_is_its_address_key_and_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for provider, limit in (("openai", "max_completion_tokens"), ("openrouter", "max_tokens"), ("together", "max_tokens")):
        with loopback.faulty([], then=reply()) as (server, url):
            monkeypatch.setenv(f"{provider.upper()}_BASE_URL", url)
            monkeypatch.delenv(f"{provider.upper()}_API_KEY", raising=False)
            monkeypatch.setenv("AGENTGYM_API_KEY", "sk-of-another-server")
            with pytest.raises(BadConfig, match=f"export {provider.upper()}_API_KEY="):
                agentgym.engine(f"chat:{provider}/a/b")
            monkeypatch.setenv(f"{provider.upper()}_API_KEY", SECRET)
            out = tmp_path / provider
            assert main(["eval", "guessnumber", "--model", f"chat:{provider}/a/b", "--tasks", "1", "--out", str(out)]) == 0
        assert server.bodies[0]["model"] == "a/b" and limit in server.bodies[0]
        assert server.heads[-1]["Authorization"] == f"Bearer {SECRET}"
        options = json.loads((out / "manifest.json").read_text())["options"]
        assert (options["model"], options["server"]) == (f"chat:{provider}/a/b", url)
