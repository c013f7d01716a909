"""The openai engine against the gateway over the hf engine, and against servers that misbehave."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
import pytest
import transformers

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import loopback

import agentgym
from agentgym.engines import Completion, Request, Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.openai import engine as openai
from agentgym.engines.openai.engine import OpenAIEngine
from agentgym.engines.scripted import ByteTokenizer
from agentgym.errors import BadConfig, Fault
from agentgym.gateway import App, Gateway


@pytest.fixture(scope="module")
def hf(folders: tuple[Path, Path]) -> HFEngine:
    return HFEngine(folders[0], slots=4)


@pytest.fixture(scope="module")
def address(hf: HFEngine) -> Iterator[str]:
    with loopback.serving(App(Gateway(hf, "tiny"))) as url:
        yield f"{url}/v1"


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Any, address: str, folders: tuple[Path, Path]) -> None:
    made = agentgym.engine(f"openai:{address}")
    reference = transformers.AutoModelForCausalLM.from_pretrained(folders[0])
    asyncio.run(check(conformance.EngineUnderTest(made, reference=reference)))
    assert made.met == {}


def test_the_same_digits_as_the_engine_behind(address: str, folders: tuple[Path, Path]) -> None:
    sampling = Sampling(temperature=0.7, max_tokens=20, seed=2**62 + 3)

    async def ask(engine: Any) -> Completion:
        return await engine.generate(conformance.PROMPT, sampling, "a")

    ours, theirs = asyncio.run(ask(OpenAIEngine(address))), asyncio.run(ask(HFEngine(folders[0])))
    assert ours.ids == theirs.ids and ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_an_aborted_request_ends_behind_the_server(how: str, address: str, hf: HFEngine) -> None:
    async def play() -> None:
        engine = OpenAIEngine(address)
        decoded = hf.decoded
        task = asyncio.create_task(engine.generate(conformance.PROMPT, Sampling(max_tokens=490), "gone"))
        while hf.decoded < decoded + 5:
            await asyncio.sleep(0.005)
        if how == "abort":
            engine.abort("gone")
            assert (await task).finish == "abort"
        else:
            task.cancel()
        for _ in range(300):  # in the same event loop: its end would hang up too
            if not hf._running:
                break
            await asyncio.sleep(0.01)
        assert hf.decoded < decoded + 480

    asyncio.run(play())


class Unscaled(HFEngine):
    """What a server does that is not told to process log-probabilities: those of temperature 1."""

    async def complete(self, request: Request) -> Completion:
        got = await super().complete(request)
        got.logprobs = (await self.score([*request.prompt_ids, *got.ids], 1.0))[len(request.prompt_ids) - 1 :]
        return got


def test_a_server_is_accepted_for_training_only_if_it_scores_right(address: str, folders: tuple[Path, Path]) -> None:
    async def qualify(url: str, folder: Path) -> float:
        engine = OpenAIEngine(url)
        try:
            return await engine.qualify(HFEngine(folder))
        finally:
            accepted.append(engine.accepted)

    accepted: list[bool] = []
    assert asyncio.run(qualify(address, folders[0])) < 1e-4
    with pytest.raises(BadConfig, match="of other weights"):
        asyncio.run(qualify(address, folders[1]))
    with (
        loopback.serving(App(Gateway(Unscaled(folders[0]), "tiny"))) as url,
        pytest.raises(BadConfig, match="processed_logprobs"),
    ):
        asyncio.run(qualify(f"{url}/v1", folders[0]))
    assert accepted == [True, False, False]


def client(url: str, **options: Any) -> OpenAIEngine:
    return OpenAIEngine(url, ByteTokenizer(), **{"backoff": 0.01, "timeout": 1.0, **options})


async def one(engine: OpenAIEngine, session: str = "s", **sampling: Any) -> Completion:
    return await engine.generate([1, 2, 3], Sampling(**{"max_tokens": 2, **sampling}), session)


TROUBLES = {
    "status 429": 429,
    "status 500": 500,
    "status 503": 503,
    "no answer in 1 s": "silent",
    "a cut answer": "half",
    "a broken connection": "nothing",
}
GARBAGE = {
    "html": b"<html>Bad gateway</html>",
    "empty": b"",
    "a list": [],
    "nested": b"[" * 50_000,
    "no choice": {"choices": []},
    "two choices": {"choices": loopback.GOOD["choices"] * 2},
    "text ids": loopback.changed(token_ids=["65", "66"]),
    "true ids": loopback.changed(token_ids=[True, False]),
    "negative": loopback.changed(token_ids=[-1, 2]),
    "too many": loopback.changed(token_ids=[1] * 3, logprobs={"token_logprobs": [-1.0] * 3}),
    "too few logprobs": loopback.changed(logprobs={"token_logprobs": [-1.0]}),
    "no logprobs": loopback.changed(logprobs=None),
    "not finite": loopback.changed(logprobs={"token_logprobs": [-1.0, float("nan")]}),
    "no float": loopback.changed(logprobs={"token_logprobs": [-1.0, -(10**400)]}),
    "no id": loopback.changed(token_ids=[65, 10**30]),
    "above one": loopback.changed(logprobs={"token_logprobs": [-1.0, 0.5]}),
    "false stop": loopback.changed(finish_reason="stop"),
}


@pytest.mark.parametrize("name", [*TROUBLES, *GARBAGE])
def test_trouble_is_met_counted_and_retried(name: str) -> None:
    with loopback.faulty([TROUBLES.get(name, GARBAGE.get(name))]) as (server, url):
        engine = client(url)
        assert asyncio.run(one(engine)) == Completion([65, 66], [-1.0, -2.0], "length")
    kind = name if name in TROUBLES else "not JSON" if name in ("html", "empty", "nested") else "JSON of another shape"
    if name == "nothing" or kind == "a broken connection":
        assert sum(engine.met.values()) == 1
    else:
        assert engine.met == {kind: 1}
    assert server.requests == 2


def test_after_the_last_retry_the_fault_says_what_was_met() -> None:
    with loopback.faulty([429, 500, b"?", "half"], then=500) as (server, url):
        with pytest.raises(
            Fault, match=r"5 attempts: status 429, status 500, not JSON .*, a cut answer, status 500"
        ) as found:
            asyncio.run(one(client(url, retries=4)))
        assert found.value.reason == "engine" and server.requests == 5


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 422])
def test_a_refusal_is_not_retried(status: int) -> None:
    with loopback.faulty([], then=status) as (server, url):
        with pytest.raises(Fault if status in (400, 422) else BadConfig, match=f"status {status}"):
            asyncio.run(one(client(url)))
        assert server.requests == 1


def test_a_server_that_cuts_short_or_gives_no_ids_is_refused() -> None:
    with loopback.faulty([], then=loopback.GOOD) as (_, url), pytest.raises(BadConfig, match="generation-config"):
        asyncio.run(one(client(url), max_tokens=9))
    with (
        loopback.faulty([], then=loopback.changed(token_ids=None)) as (_, url),
        pytest.raises(BadConfig, match="return_token_ids"),
    ):
        asyncio.run(one(client(url)))


def test_the_least_loaded_server_gets_the_next_request() -> None:
    with loopback.faulty(["silent"]) as (slow, a), loopback.faulty([]) as (fast, b):

        async def play() -> None:
            engine = client(f"{a},{b}", timeout=20.0)
            stuck = asyncio.create_task(one(engine, "stuck"))
            await asyncio.sleep(0.1)
            for number in range(6):
                await one(engine, f"s{number}")
            engine.abort("stuck")
            await stuck

        asyncio.run(play())
        assert (slow.requests, fast.requests) == (1, 6)


def test_a_rollout_ends_complete_beside_a_broken_server(address: str) -> None:
    """Two addresses of which one answers 429, 500, garbage, half and nothing in turn."""
    with loopback.faulty([429, 500, b"garbage", "half", "nothing"] * 8, then=500) as (_, broken):
        engine = OpenAIEngine(f"{address},{broken}", backoff=0.01)
        agent = agentgym.ChatAgent(engine, prompt="bare", sampling=Sampling(max_tokens=8))
        episodes = agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=6, attempts=2, config=agentgym.RolloutConfig(6))
    assert len(episodes) == 12 and not any(episode.fault for episode in episodes)
    assert sum(engine.met.values()) >= 1
    print(engine.met)


@pytest.mark.parametrize("url", ["localhost:8000", "", "ftp://x/v1", "http://127.0.0.1:1/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(BadConfig):
        OpenAIEngine(url, ByteTokenizer())


ODD = ["../x", "a/../b", "a\\..\\b", "http://x/y", "//host/share", "\\\\host\\x", "~/x", "a\nb", "\x1b[0m", "", 3, ["m"]]


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_a_server_cannot_name_just_anything_as_its_tokenizer(name: Any) -> None:
    with pytest.raises(BadConfig, match=r"the server names .* as its tokenizer; expected a hub name"):
        openai.served_tokenizer(name)


def test_a_tokenizer_with_code_of_its_own_is_not_run(folders: tuple[Path, Path], tmp_path: Path) -> None:
    assert openai.served_tokenizer(str(folders[0])).chat_template
    own = shutil.copytree(folders[0], tmp_path / "own")
    (own / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: ...\n")
    (own / "config.json").write_text('{"model_type": "strange"}')
    raw = json.loads((own / "tokenizer_config.json").read_text())
    raw |= {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", None]}}
    (own / "tokenizer_config.json").write_text(json.dumps(raw))
    with pytest.raises(BadConfig, match="cannot be read here"):
        openai.served_tokenizer(str(own))
    assert not (tmp_path / "ran").exists()


def test_no_more_is_read_of_an_answer_than_its_tokens_may_take() -> None:
    """64 KiB, and 1 KiB for each of 8 tokens: an endless answer is counted and asked again."""
    values = {"token_logprobs": [-1.0] * 8}
    answer = {"choices": [{"token_ids": [1] * 8, "finish_reason": "length", "logprobs": values}]}
    fits = {**answer, "padding": "p" * (64 << 10)}
    with loopback.faulty([{**answer, "padding": "p" * (72 << 10)}], then=fits) as (server, url):
        engine = OpenAIEngine(url, tokenizer=object(), backoff=0.01)
        done = asyncio.run(engine.generate([1, 2], Sampling(max_tokens=8), "s"))
    assert done.ids == [1] * 8 and server.requests == 2 and engine.met == {"an answer too long": 1}
