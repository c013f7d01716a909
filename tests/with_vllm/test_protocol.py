"""The engine protocol against real vLLM; run by `./dev test-vllm` in an environment of its own."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

import conformance
import tiny
import torch
import transformers

from agentgym.engines import Completion, Sampling, TokenEngine
from agentgym.engines.hf import HFEngine
from agentgym.engines.vllm import VLLMEngine

SMALL: dict[str, Any] = {
    "dtype": "float32",
    "context": 512,
    "enforce_eager": True,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 32 << 20,
}
NEAR_TIE = 1e-3  # between the two largest logits


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny.folder(tmp_path_factory.mktemp("a")), tiny.folder(tmp_path_factory.mktemp("b"), seed=1)


@pytest.fixture(scope="module")
def engine(loop: asyncio.Runner, folders: tuple[Path, Path]) -> Iterator[VLLMEngine]:
    async def make() -> VLLMEngine:
        return VLLMEngine(folders[0], **SMALL)

    made = loop.run(make())
    yield made
    made.close()


def library(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


async def episode(engines: Sequence[TokenEngine], number: int) -> list[list[Completion]]:
    """Ask several engines the same greedy turns; the first one's tokens go into everybody's next prompt."""
    prompt = [256, *(40 + number * 3 + i for i in range(20)), 10]
    turns: list[list[Completion]] = []
    for turn in range(5):
        sampling = Sampling(temperature=0, max_tokens=10, seed=turn)
        turns.append(list(await asyncio.gather(*(e.generate(prompt, sampling, f"episode{number}") for e in engines))))
        prompt = [*prompt, *turns[-1][0].ids, 10, *(100 + turn + i for i in range(12)), 10]
    return turns


def compare(model: Any, episodes: list[list[list[Completion]]]) -> tuple[int, int, float]:
    """Return (tokens compared, near-ties that went the other way, largest log-probability difference); fail on the rest."""
    tokens, ties, worst = 0, 0, 0.0
    for number, turns in enumerate(episodes):
        prompt = [256, *(40 + number * 3 + i for i in range(20)), 10]
        for turn, (ours, theirs) in enumerate(turns):
            for i, (a, b) in enumerate(zip(ours.ids, theirs.ids, strict=True)):
                if a != b:
                    with torch.no_grad():
                        top = model(torch.tensor([[*prompt, *ours.ids[:i]]])).logits[0, -1].topk(2).values
                    assert top[0] - top[1] < NEAR_TIE, f"episode {number}, turn {turn}, token {i}: {a} against {b}"
                    ties += 1
                    break
                tokens += 1
                worst = max(worst, abs(ours.logprobs[i] - theirs.logprobs[i]))
            prompt = [*prompt, *ours.ids, 10, *(100 + turn + i for i in range(12)), 10]
    return tokens, ties, worst


def test_turns_equal_the_hf_engine(engine: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path]) -> None:
    async def play() -> list[list[list[Completion]]]:
        ours = HFEngine(folders[0], slots=8)
        return list(await asyncio.gather(*(episode([ours, engine], number) for number in range(8))))

    tokens, ties, worst = compare(library(folders[0]), loop.run(play()))
    print(f"\n{tokens} greedy tokens equal, {ties} near-ties, log-probabilities within {worst:.1e}")
    assert tokens > 380 and ties < 4 and worst < 1e-4


CHECKS = [check for check in conformance.CHECKS if check is not conformance.check_score]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Any, engine: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path]) -> None:
    loop.run(check(conformance.Subject(engine, reference=library(folders[0]), other=folders[1])))


def test_score_at_temperature_one(engine: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path]) -> None:
    """Asked after the weight update of the conformance suite, so these are the second folder's."""
    ids = conformance.PROMPT
    want = conformance.reference_logprobs(library(folders[1]), ids[:1], ids[1:], 1.0)
    assert loop.run(engine.score(ids)) == pytest.approx(want, abs=1e-4)


def test_updated_engine_equals_a_fresh_one(engine: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path]) -> None:
    """By folder and by named tensors: after the update greedy tokens are those of an engine made from the new weights."""

    async def play() -> list[list[list[Completion]]]:
        fresh = VLLMEngine(folders[1], **SMALL)
        try:
            await engine.load_weights(folders[1], 8)
            first = [await episode([fresh, engine], number) for number in range(2)]
            await engine.load_weights(folders[0], 9)
            await engine.load_weights(library(folders[1]).named_parameters(), 10)
            return first + [await episode([fresh, engine], number) for number in range(2, 4)]
        finally:
            fresh.close()

    episodes = loop.run(play())
    assert episodes[-1][0][1].policy_version == 10
    tokens, ties, worst = compare(library(folders[1]), episodes)
    print(f"\n{tokens} greedy tokens equal, {ties} near-ties, log-probabilities within {worst:.1e}")
    assert tokens > 180 and worst < 1e-4
