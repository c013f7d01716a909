"""The hf engine against the library: ten turns of short actions, histories growing, in one run and paired.

    python benchmarks/engine.py [--batch 32] [--rounds 3] [--threads 2]

Every arm plays the same episodes: a prompt, then turns of ACTION sampled tokens and OBSERVATION new ones.
`engine` is HFEngine; `generate` pads on the left and prefills the whole history again each turn; `generate_batch` is
the library's own continuous batching. The policy is random, so every action runs to its full length in every arm.
"""

import argparse
import asyncio
import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine

TURNS, ACTION, OBSERVATION, PROMPT = 10, 6, 20, 60
Text = list[list[int]]


def default_model() -> transformers.Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=600,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        initializer_range=0.088,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return transformers.Qwen3ForCausalLM(config).eval()


def texts(batch: int, length: int, seed: int) -> Text:
    """Return uneven texts of about a length: prompts, or observations."""
    g = torch.Generator().manual_seed(seed)
    sizes = torch.randint(length - length // 4, length + length // 4 + 1, (batch,), generator=g)
    return [torch.randint(1, 600, (int(n),), generator=g).tolist() for n in sizes]


def play(batch: int, complete: Callable[[Text, int], Text]) -> int:
    """Play in lockstep; return the tokens sampled."""
    batch_texts, sampled = texts(batch, PROMPT, 0), 0
    for turn in range(TURNS):
        new = texts(batch, OBSERVATION, turn + 1)
        actions = complete(batch_texts, turn)
        sampled += sum(map(len, actions))
        batch_texts = [h + a + n for h, a, n in zip(batch_texts, actions, new, strict=True)]
    return sampled


def with_engine(model: transformers.Qwen3ForCausalLM, batch: int) -> Callable[[], int]:
    engine = HFEngine(model, slots=batch)

    async def episode(number: int, prompt: list[int], observations: Text, round: int) -> int:
        sampled = 0
        for turn, observation in enumerate(observations):
            seed = number * TURNS + turn
            got = await engine.generate(prompt, Sampling(max_tokens=ACTION, seed=seed), f"{round}/{number}")
            sampled += len(got.ids)
            prompt = prompt + got.ids + observation
        engine.abort(f"{round}/{number}")
        return sampled

    async def all_episodes(round: int) -> int:
        observations = [texts(batch, OBSERVATION, turn + 1) for turn in range(TURNS)]
        prompts = texts(batch, PROMPT, 0)
        jobs = [episode(i, p, [o[i] for o in observations], round) for i, p in enumerate(prompts)]
        return sum(await asyncio.gather(*jobs))

    rounds = iter(range(1000))
    return lambda: asyncio.run(all_episodes(next(rounds)))


def with_generate(model: Any, batch: int) -> Callable[[], int]:
    def complete(text: Text, turn: int) -> Text:
        longest = max(map(len, text))
        ids = torch.tensor([[0] * (longest - len(h)) + h for h in text])
        mask = torch.tensor([[0] * (longest - len(h)) + [1] * len(h) for h in text])
        out = model.generate(ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=ACTION, pad_token_id=0)
        return out[:, longest:].tolist()

    return lambda: play(batch, complete)


def with_generate_batch(model: transformers.Qwen3ForCausalLM, batch: int) -> Callable[[], int]:
    config = transformers.GenerationConfig(max_new_tokens=ACTION, do_sample=True, top_k=0, eos_token_id=-1, pad_token_id=0)
    # Without a size the cache takes nine tenths of the machine's memory. The manager, and with it the cache of shared
    # blocks, is kept between the turns.
    cache = transformers.ContinuousBatchingConfig(num_blocks=4 * batch, max_batch_tokens=2048)

    def complete(text: Text, turn: int) -> Text:
        outputs = model.generate_batch(
            text, generation_config=config, continuous_batching_config=cache, persistent_manager=True, warmup=False
        )
        by_prompt = {tuple(output.prompt_ids): output.generated_tokens for output in outputs.values()}
        return [by_prompt[tuple(h)] for h in text]

    return lambda: play(batch, complete)


def split_speed(model: transformers.Qwen3ForCausalLM, batch: int) -> tuple[float, float]:
    """Return (prefill, decode) tokens per second of the engine's forward pass, apart from one another."""
    from agentgym.engines.hf.slots import Row, SlotModel

    slots = SlotModel(model, batch, 1024)
    prompts = [text[:250] for text in texts(batch, 400, 0)]
    slots.forward([Row(i, 0, prompt) for i, prompt in enumerate(prompts)])

    def rate(size: int, steps: int) -> float:
        begun = time.perf_counter()
        for _ in range(steps):
            slots.forward([Row(i, len(p), [1] * size) for i, p in enumerate(prompts)])
        return batch * size * steps / (time.perf_counter() - begun)

    return rate(OBSERVATION, 15), rate(1, 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    model = default_model()
    makers = {"engine": with_engine, "generate": with_generate, "generate_batch": with_generate_batch}
    arms: dict[str, Callable[[], int]] = {}
    for name, make in makers.items():
        arms[name] = make(model, arguments.batch)
        try:
            arms[name]()  # warm
        except Exception as error:
            print(f"{name} does not run here: {type(error).__name__}: {error}")
            del arms[name]
    speeds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(arguments.rounds):
        for name, arm in arms.items():  # in turn, so that a noisy machine is noisy for all
            begun = time.perf_counter()
            sampled = arm()
            speeds[name].append(sampled / (time.perf_counter() - begun))
    for name in list(arms)[1:]:
        ratios = [a / b for a, b in zip(speeds["engine"], speeds[name], strict=True)]
        print(f"engine is {statistics.median(ratios):.2f} times {name} ({min(ratios):.2f} to {max(ratios):.2f})")
    for name, values in speeds.items():
        print(f"  {name:15} {statistics.median(values):8.0f} sampled tokens a second")
    prefill, decode = split_speed(model, arguments.batch)
    print(f"  forward pass    {prefill:8.0f} tokens a second of prefill, {decode:.0f} of decode")
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"  batch {arguments.batch}, {arguments.threads} threads, {versions}")


if __name__ == "__main__":
    main()
