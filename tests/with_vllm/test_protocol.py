"""The engine protocol against real vLLM, dense and mixture; run by `./dev test-vllm` in an environment of its own."""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

import conformance
import greedy
import tiny
import torch

from agentgym.engines import Completion, Sampling, Watch
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm.engine import VLLMEngine
from agentgym.errors import BadConfig


@dataclass
class Served:
    """An engine, and the folders of its weights and of others."""

    engine: VLLMEngine
    first: Path
    second: Path


@pytest.fixture(scope="module", params=["Qwen3", "Qwen3Moe"])
def served(request: Any, loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model whose folder holds a hostile generation config."""
    first, second = (tiny.folder(tmp_path_factory.mktemp("m"), seed=seed, kind=request.param) for seed in range(2))
    assert (first / "generation_config.json").read_text().count('"top_k": 1')
    engine = greedy.start(loop, first)
    yield Served(engine, first, second)
    engine.close()


def test_turns_equal_the_hf_engine(served: Served, loop: asyncio.Runner) -> None:
    async def play() -> list[list[list[Completion]]]:
        ours = HFEngine(served.first, slots=8)
        return list(await asyncio.gather(*(greedy.episode([ours, served.engine], number) for number in range(8))))

    tokens, ties, worst = greedy.compare(greedy.library(served.first), loop.run(play()))
    print(f"\n{tokens} greedy tokens equal, {ties} near-ties, log-probabilities within {worst:.1e}")
    assert tokens > 380 and ties < 4 and worst < 1e-4


def test_256_requests_at_once(served: Served, loop: asyncio.Runner) -> None:
    """Sixteen times what runs at once: all complete, with the log-probabilities of the definition at temperature 0.7."""
    rng = random.Random(0)
    prompts = [[256, *(rng.randrange(32, 126) for _ in range(rng.randrange(3, 30)))] for _ in range(256)]

    async def ask(number: int, session: str) -> Completion:
        sampling = Sampling(temperature=0.7, max_tokens=8 + number % 9, seed=number)
        return await served.engine.generate(prompts[number], sampling, session)

    async def play() -> tuple[list[Completion], list[Completion]]:
        crowd = await asyncio.gather(*(ask(number, f"crowd{number}") for number in range(256)))
        return crowd, [await ask(number, f"alone{number}") for number in range(0, 256, 16)]

    crowd, alone = loop.run(play())
    model, errors = greedy.library(served.first), []
    for number, got in enumerate(crowd):
        assert len(got.ids) == 8 + number % 9 and got.finish == "length"
        want = conformance.reference_logprobs(model, prompts[number], got.ids, 0.7)
        errors += [abs(a - b) for a, b in zip(got.logprobs, want, strict=True)]
    mean, worst = sum(errors) / len(errors), max(errors)
    equal = sum(got.ids == crowd[number * 16].ids for number, got in enumerate(alone))
    print(f"\n{len(errors)} tokens: mean |difference| {mean:.1e}, largest {worst:.1e}; {equal} of {len(alone)} equal alone")
    assert mean < 1e-3 and equal >= len(alone) - 1


def test_what_crosses_to_the_loop(served: Served, loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A completion that nobody watches crosses once, however long; one that is watched crosses as it is sampled."""
    crossed: list[int] = []
    generate = served.engine._llm.generate

    async def counted(*args: Any, **options: Any) -> AsyncGenerator[Any]:
        async for output in generate(*args, **options):
            crossed.append(len(output.outputs[0].token_ids))
            yield output

    monkeypatch.setattr(served.engine._llm, "generate", counted)

    async def ask(watch: Watch | None) -> tuple[list[int], list[int]]:
        crossed.clear()
        done = await served.engine.generate([256, 40, 41], Sampling(max_tokens=24, seed=3), "a", watch=watch)
        return done.ids, list(crossed)

    whole, once = loop.run(ask(None))
    watched, parts = loop.run(ask(lambda id, logprob: False))
    assert once == [24] and whole == watched
    assert sum(parts) == 24 and len(parts) > 1


CHECKS = [check for check in conformance.CHECKS if check is not conformance.check_score]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Any, served: Served, loop: asyncio.Runner) -> None:
    loop.run(check(conformance.EngineUnderTest(served.engine, reference=greedy.library(served.first), other=served.second)))


def test_score_at_temperature_one(served: Served, loop: asyncio.Runner) -> None:
    """Asked after the weight update of the conformance suite, so these are the second folder's."""
    ids = conformance.PROMPT
    want = conformance.reference_logprobs(greedy.library(served.second), ids[:1], ids[1:], 1.0)
    assert loop.run(served.engine.score(ids)) == pytest.approx(want, abs=1e-4)
    with pytest.raises(BadConfig, match="at temperature 1 only"):
        loop.run(served.engine.score(ids, 0.7))


def test_an_aborted_request_frees_its_slot_and_blocks(loop: asyncio.Runner, tmp_path: Path) -> None:
    """With one slot and room for little more than one context, later requests go through only if all is freed."""
    folder = tiny.folder(tmp_path)
    per_token = 2 * 2 * 2 * 32 * 4  # bytes: keys and values, layers, heads, their size, float32
    engine = greedy.start(loop, folder, max_num_seqs=1, kv_cache_memory_bytes=800 * per_token)

    async def play() -> list[Completion]:
        ended: list[Completion] = []
        for number in range(6):
            prompt = [256, *(40 + (7 * number + i) % 80 for i in range(300))]
            long = asyncio.create_task(engine.generate(prompt, Sampling(max_tokens=200, seed=number), f"long{number}"))
            waiting = asyncio.create_task(engine.generate(prompt[:9], Sampling(max_tokens=3), f"short{number}"))
            await asyncio.sleep(0.05)
            engine.abort(f"long{number}")
            ended += await asyncio.wait_for(asyncio.gather(long, waiting), 120)
        return ended

    try:
        ended = loop.run(play())
    finally:
        engine.close()
    assert [got.finish for got in ended] == ["abort", "length"] * 6
    want = conformance.reference_logprobs(greedy.library(folder), [256, *range(40, 48)], ended[1].ids, 1.0)
    assert ended[1].logprobs == pytest.approx(want, abs=1e-4)


def test_a_close_lets_go_of_whoever_waits(loop: asyncio.Runner, tmp_path: Path) -> None:
    engine = greedy.start(loop, tiny.folder(tmp_path))

    async def play() -> list[str]:
        completions = [asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=200), name)) for name in "ab"]
        await asyncio.sleep(0.1)
        engine.abort("b")
        pausing = asyncio.create_task(engine.pause())
        await asyncio.sleep(0)
        completions.append(asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=2), "late")))
        await asyncio.sleep(0)
        engine.close()
        done = await asyncio.wait_for(asyncio.gather(*completions), 30)
        await asyncio.wait_for(pausing, 30)
        return [completion.finish for completion in done]

    assert loop.run(play()) == ["abort"] * 3


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"no option of the vllm engine 'max_num_seq'. Did you mean 'max_num_seqs'"):
        VLLMEngine(tmp_path, max_num_seq=3)
    with pytest.raises(BadConfig, match="option 'generation_config' of the vllm engine is fixed to 'vllm'"):
        VLLMEngine(tmp_path, generation_config="auto")
    if not torch.cuda.is_available():
        with pytest.raises(BadConfig, match="weight_transport 'nccl' needs a CUDA device, and this machine has none"):
            VLLMEngine(tmp_path, weight_transport="nccl")
