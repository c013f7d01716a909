"""Engines asked the same, and what may differ between them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from agentgym.engines import Completion, Sampling, TokenEngine
from agentgym.engines.vllm.engine import VLLMEngine

SMALL: dict[str, Any] = {
    "dtype": "float32",
    "context": 512,
    "enforce_eager": True,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 32 << 20,
}
NEAR_TIE = 1e-3  # between the two largest logits


def start(loop: asyncio.Runner, folder: Path, **options: Any) -> VLLMEngine:
    """Make a small engine inside the loop it is used from."""

    async def make() -> VLLMEngine:
        return VLLMEngine(folder, **{**SMALL, **options})

    return loop.run(make())


def library(folder: Path) -> Any:
    """Return the model of a folder in the library."""
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
