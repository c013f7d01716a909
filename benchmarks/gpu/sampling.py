"""Phase 2, the speed of sampling: ten turns of many episodes at published shapes, against bandwidth and `generate`."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from gpu.machine import Cells, architecture, device, limits, model_of, parameters, wait

TURNS, PROMPT, REPLY, OBSERVATION = 10, 400, 60, 60
SIZES = ("0.5B", "1.5B", "7B")
IN_FLIGHT = (64, 256, 512)


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    del out, before
    sizes, flights = (("tiny",), (4, 8)) if cells.rehearse else (SIZES, IN_FLIGHT)
    cells.run("limits", lambda: limits(cells.rehearse), 30)
    bandwidth = cells.results["limits"].get("bytes_per_second", float("nan"))
    for size in sizes:
        for number in flights:
            cells.run(f"{size}, {number} in flight", lambda s=size, n=number: engine(s, n, bandwidth, cells.rehearse), 70)
        number = flights[0]
        cells.run(f"{size}, {number}, generate", lambda s=size, n=number: generate(s, n, cells.rehearse), 120)
    cells.run("profile", lambda: profile(sizes[min(1, len(sizes) - 1)], flights[1], cells.rehearse), 60)
    cells.run("uneven environments", lambda: uneven(sizes[0], flights[1], cells.rehearse), 60)


def _lengths(rehearse: bool) -> tuple[int, int, int, int]:
    return (2, 30, 5, 6) if rehearse else (TURNS, PROMPT, REPLY, OBSERVATION)


def made(size: str, number: int, rehearse: bool) -> HFEngine:
    turns, prompt, reply, observation = _lengths(rehearse)
    model = model_of(architecture(size, rehearse), torch.bfloat16 if device() == "cuda" else torch.float32)
    return HFEngine(model, _Words(), slots=number, context=prompt + turns * (reply + observation) + 8, device=device())


class _Words:
    """Stands where a tokenizer would: prompts here are random ids."""


async def episodes(
    engine: HFEngine, number: int, turns: int, prompt: int, reply: int, observation: int, pause: Any = None, round_: int = 0
) -> int:
    """Play episodes of random text, each as soon as its own reply is there; return the tokens sampled."""
    vocabulary = int(engine.model.config.vocab_size)

    async def episode(index: int) -> int:
        rng = np.random.default_rng((round_, index))
        held: list[int] = rng.integers(1, vocabulary, prompt).tolist()
        sampled = 0
        for turn in range(turns):
            got = await engine.generate(held, Sampling(max_tokens=reply, seed=index * 100 + turn), f"{round_}/{index}")
            sampled += len(got.ids)
            held = held + got.ids + rng.integers(1, vocabulary, observation).tolist()
            if pause is not None:
                await asyncio.sleep(float(pause(rng)))
        engine.abort(f"{round_}/{index}")
        return sampled

    return sum(await asyncio.gather(*(episode(index) for index in range(number))))


def engine(size: str, number: int, bandwidth: float, rehearse: bool) -> dict[str, Any]:
    """Return tokens a second, and the most that the device's bandwidth would allow: all weights and caches read a step."""
    turns, prompt, reply, observation = _lengths(rehearse)
    under = made(size, number, rehearse)
    asyncio.run(episodes(under, number, 1, prompt, 4, observation, round_=1))
    wait()
    began = time.perf_counter()
    sampled = asyncio.run(episodes(under, number, turns, prompt, reply, observation, round_=2))
    wait()
    seconds = time.perf_counter() - began
    config, item = under.model.config, under.model.dtype.itemsize
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * config.num_key_value_heads * head * item
    mean = prompt + turns * (reply + observation) / 2
    step = parameters(under.model) * item + number * mean * token
    limit = number * bandwidth / step
    return {
        "tokens_per_second": sampled / seconds,
        "limit_tokens_per_second": limit,
        "share_of_limit": sampled / seconds / limit,
        "prefilled": under.prefilled,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if device() == "cuda" else None,
    }


def generate(size: str, number: int, rehearse: bool) -> dict[str, Any]:
    """Return tokens a second of the library's `generate`, which computes every history anew at each turn."""
    turns, prompt, reply, observation = _lengths(rehearse)
    model = model_of(architecture(size, rehearse), torch.bfloat16 if device() == "cuda" else torch.float32)
    vocabulary = int(model.config.vocab_size)
    held = torch.randint(1, vocabulary, (number, prompt), device=device())
    sampled, began = 0, time.perf_counter()
    with torch.no_grad():
        for _ in range(turns):
            out = model.generate(
                held, attention_mask=torch.ones_like(held), do_sample=True, top_k=0, min_new_tokens=reply,
                max_new_tokens=reply, pad_token_id=0,
            )  # fmt: skip
            sampled += number * (out.shape[1] - held.shape[1])
            held = torch.cat([out, torch.randint(1, vocabulary, (number, observation), device=device())], 1)
    wait()
    return {"tokens_per_second": sampled / (time.perf_counter() - began)}


def profile(size: str, number: int, rehearse: bool) -> dict[str, Any]:
    """Return where the time of a turn goes: the busiest kernels, and the share of the time when the device works."""
    _, prompt, reply, observation = _lengths(rehearse)
    under = made(size, number, rehearse)
    asyncio.run(episodes(under, number, 1, prompt, 4, observation, round_=1))
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device() == "cuda" else []
    wait()
    began = time.perf_counter()
    with torch.profiler.profile(activities=activities) as profiler:
        asyncio.run(episodes(under, number, 1, prompt, min(reply, 20), observation, round_=2))
        wait()
    seconds = time.perf_counter() - began
    on_device = "device_time_total" if device() == "cuda" else "cpu_time_total"
    self_time = f"self_{on_device}"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, self_time))
    busy = sum(getattr(event, self_time) for event in events) / 1e6
    top = {event.key[:60]: round(getattr(event, self_time) / 1e6 / busy, 3) for event in events[:12]}
    return {"busy_share": busy / seconds, "top": top, "host_bound": busy / seconds < 0.6}


def uneven(size: str, number: int, rehearse: bool) -> dict[str, Any]:
    """Return tokens a second beside environments that take 0.2 s at the median, against none, in one run and in turn."""
    turns, prompt, reply, observation = _lengths(rehearse)
    under = made(size, number, rehearse)
    scale = 0.002 if rehearse else 0.2
    found: dict[str, list[float]] = {"at once": [], "uneven": []}
    for round_ in range(2, 6):
        name = "uneven" if round_ % 2 else "at once"
        pause = (lambda rng: scale * rng.lognormal(0, 1)) if name == "uneven" else None
        began = time.perf_counter()
        sampled = asyncio.run(episodes(under, number, max(turns // 2, 1), prompt, reply, observation, pause, round_))
        found[name].append(sampled / (time.perf_counter() - began))
    rates = {name: statistics.mean(values) for name, values in found.items()}
    return {**rates, "idle_share": 1 - rates["uneven"] / rates["at once"]}
