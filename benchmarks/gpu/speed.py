"""Cell c, how far from the limit: tokens a second of engine and `generate`, use of the card in an update, a profile."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import groups
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.model.precision import masters
from gpu import machine
from gpu.cell import Parts
from gpu.machine import architecture, check_room, device, low, model_of, now, parameters, sampling_bytes
from gpu.rows import episodes_of

TURNS, PROMPT, REPLY, OBSERVATION = 4, 400, 60, 60
SIZES, IN_FLIGHT = ("0.5B", "1.5B"), (64, 256)
ROW, TRAINED, ROWS = 8192, 2048, 4
DATASHEET = 989e12
"""Dense bf16 operations a second of an H100 or H200 (SXM), by NVIDIA's data sheet."""


def measure(parts: Parts) -> None:
    sizes, flights = (("tiny",), (4, 8)) if parts.rehearse else (SIZES, IN_FLIGHT)
    parts.run("limits", lambda: machine.limits(parts.rehearse), 5)
    bandwidth = parts.known.get("limits", {}).get("bytes_per_second", float("nan"))
    rate = parts.known.get("limits", {}).get("operations_per_second", float("nan"))
    graphs = (False, True) if has_graphs() else (False,)
    for size in reversed(sizes):
        for number in reversed(flights):
            for on in graphs:
                name = f"{size}, {number} in flight" + (", CUDA graphs" if on else "")
                parts.run(name, lambda s=size, n=number, g=on: engine(s, n, bandwidth, g, parts.rehearse), 9)
    for again in (False, True):
        name = "update, recomputed" if again else "update"
        parts.run(f"{sizes[-1]}, {name}", lambda g=again: update(sizes[-1], g, rate, parts.rehearse), 10)
    parts.run("profile of sampling", lambda: profile(sizes[-1], flights[-1], parts.rehearse), 8)
    for size in reversed(sizes):
        for number in reversed(flights):
            parts.run(f"{size}, {number}, generate", lambda s=size, n=number: generate(s, n, parts.rehearse), 12)


def has_graphs() -> bool:
    """Return whether the engine has the switch for CUDA graphs."""
    import inspect

    return "graphs" in inspect.signature(HFEngine).parameters


def _lengths(rehearse: bool) -> tuple[int, int, int, int]:
    return (2, 30, 5, 6) if rehearse else (TURNS, PROMPT, REPLY, OBSERVATION)


def made(size: str, number: int, rehearse: bool, graphs: bool = False) -> HFEngine:
    turns, prompt, reply, observation = _lengths(rehearse)
    shape, context = architecture(size, rehearse), prompt + turns * (reply + observation) + 8
    model = model_of(shape, low())
    check_room(sampling_bytes(shape, number, context, parameters(model)), f"sampling {number} at once")
    options: dict[str, Any] = {"graphs": True} if graphs else {}
    return HFEngine(model, None, slots=number, context=context, device=device(), **options)


async def play(engine: HFEngine, number: int, turns: int, prompt: int, reply: int, observation: int, round_: int) -> int:
    """Play episodes of random text, each as soon as its own reply is there; return the tokens sampled."""
    vocabulary = int(engine.model.config.vocab_size)

    async def episode(index: int) -> int:
        rng = np.random.default_rng((round_, index))
        ids: list[int] = rng.integers(1, vocabulary, prompt).tolist()
        sampled = 0
        for turn in range(turns):
            got = await engine.generate(ids, Sampling(max_tokens=reply, seed=index * 100 + turn), f"{round_}/{index}")
            sampled += len(got.ids)
            ids = ids + got.ids + rng.integers(1, vocabulary, observation).tolist()
        engine.abort(f"{round_}/{index}")
        return sampled

    return sum(await asyncio.gather(*(episode(index) for index in range(number))))


def engine(size: str, number: int, bandwidth: float, graphs: bool, rehearse: bool) -> dict[str, Any]:
    """Return tokens a second, and the most that bandwidth would allow: weights and caches read once a step."""
    turns, prompt, reply, observation = _lengths(rehearse)
    under = made(size, number, rehearse, graphs)
    asyncio.run(play(under, number, turns, prompt, 3, observation, 1))  # caches at their full length, kernels loaded
    began, decoded = now(), under.decoded
    sampled = asyncio.run(play(under, number, turns, prompt, reply, observation, 2))
    seconds = now() - began
    config, item = under.model.config, under.model.dtype.itemsize
    mean = int(prompt + turns * (reply + observation) / 2)
    read = parameters(under.model) * item + machine.cache_bytes(config, number, mean, item)
    limit = number * bandwidth / read
    return {
        "tokens_per_second": sampled / seconds,
        "limit_tokens_per_second": limit,
        "share_of_limit": sampled / seconds / limit,
        "milliseconds_a_step": 1000 * seconds / ((under.decoded - decoded) / number),
        "prefilled": under.prefilled,
        "peak_gb": (machine.peak() or 0) / 1e9,
    }


def generate(size: str, number: int, rehearse: bool) -> dict[str, Any]:
    """Return tokens a second of the library's `generate`, which computes every history again at each turn."""
    turns, prompt, reply, observation = _lengths(rehearse)
    shape = architecture(size, rehearse)
    model = model_of(shape, low())
    check_room(sampling_bytes(shape, number, prompt + turns * (reply + observation), parameters(model)), "generate")
    vocabulary = int(model.config.vocab_size)
    ids = torch.randint(1, vocabulary, (number, prompt), device=device())
    sampled, began, played = 0, now(), 0
    with torch.no_grad():
        for _ in range(turns):
            length: dict[str, Any] = {"min_new_tokens": reply, "max_new_tokens": reply, "pad_token_id": 0}
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, **length)
            played += 1
            sampled += number * (out.shape[1] - ids.shape[1])
            ids = torch.cat([out, torch.randint(1, vocabulary, (number, observation), device=device())], 1)
            if now() - began > (60 if rehearse else 10):  # later turns are longer, so this favors `generate`
                break
    return {"tokens_per_second": sampled / (now() - began), "turns": played}


def update(size: str, again: bool, rate: float, rehearse: bool) -> dict[str, Any]:
    """Return seconds of an update of rows of 8,192 tokens, and what share of the card's operations the model's own need."""
    length, trained, number = (256, 64, 4) if rehearse else (ROW, TRAINED, ROWS)
    precision = "bf16" if device() == "cuda" else "fp32"
    base = TrainConfig(
        model="Qwen/Qwen2.5-1.5B", env="rlvr/Household-v0", minibatches=1, batch_tokens=length, precision=precision
    )
    config = replace(base, gradient_checkpointing=again)
    shape = architecture(size, rehearse)
    needed, found = planned_bytes(shape, config, length, trained, number), {}
    found["planned_peak_gb"] = needed / 1e9
    if needed > machine.memory():
        raise MemoryError(f"the plan says {needed / 1e9:.1f} GB; the card has {machine.memory() / 1e9:.1f} GB")
    model = model_of(shape, low())
    accelerator = Accelerator(cpu=device() == "cpu")
    learner = TrainedModel(accelerator, Scorer(model, 1.0, gradient_checkpointing=again), [])
    learner.masters = masters(model, precision, 1)
    learner.optimizers = list(optimizers(learner.masters or model, 1e-6, muon=False))
    episodes = groups(episodes_of(number, length, trained, shape.vocab_size))
    times: list[float] = []
    for step in range(3):
        began = now()
        metrics = reinforce(learner, episodes, resolve("grpo"), config, step)
        times.append(now() - began)
        print(f"c: update {step} took {times[-1]:.2f} s")
    if not metrics["grad_norm"] > 0:
        raise AssertionError("the update had no gradient")
    seconds, needs = min(times[1:]), operations(model, shape, number, length, trained)
    found |= {"seconds": seconds, "tokens_per_second": number * length / seconds, "attention": learner.scorer.method}
    found |= {"utilization_of_measured": needs / seconds / rate, "utilization_of_datasheet": needs / seconds / DATASHEET}
    measured = machine.peak()
    if measured:
        found |= {"measured_peak_gb": measured / 1e9, "plan_off": needed / measured - 1}
    return found


def planned_bytes(shape: Any, config: TrainConfig, length: int, trained: int, number: int) -> int:
    """Return the peak of an update that the planner counts."""
    from agentgym.planner.dry_run import Rows, update_bytes

    planned = update_bytes(shape, config, Rows(1, length, trained, number), gpu=device() == "cuda")
    standing = planned.weights + planned.masters + planned.gradients + planned.optimizer
    return standing + max(planned.activations + planned.logits, planned.stepping)


def operations(model: Any, shape: Any, rows: int, length: int, trained: int) -> float:
    """Return the operations that the model needs, recomputation left out: forward, and twice that backward."""
    vocabulary = shape.vocab_size * shape.hidden_size
    body = parameters(model) - vocabulary * (1 if shape.tie_word_embeddings else 2)
    forward = 2 * body * rows * length + 2 * vocabulary * rows * trained
    forward += 2 * shape.num_hidden_layers * shape.hidden_size * rows * length**2  # causal: half of the square
    return 3 * forward


def profile(size: str, number: int, rehearse: bool) -> dict[str, Any]:
    """Return where the time of decoding goes: the ten busiest kernels, and the share of the time when the card works."""
    _, prompt, reply, observation = _lengths(rehearse)
    under = made(size, number, rehearse)
    asyncio.run(play(under, number, 1, prompt, 4, observation, 1))
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device() == "cuda" else []
    began = now()
    with torch.profiler.profile(activities=activities) as profiler:
        asyncio.run(play(under, number, 1, prompt, min(reply, 8), observation, 2))
        seconds = now() - began
    began = time.perf_counter()
    clock = "self_device_time_total" if device() == "cuda" else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, clock))
    busy = sum(getattr(event, clock) for event in events) / 1e6
    top = {event.key[:60]: round(getattr(event, clock) / 1e6 / max(busy, 1e-9), 3) for event in events[:10]}
    for key, share in top.items():
        print(f"c: {share:.1%} {key}")
    reading = time.perf_counter() - began
    return {"busy_share": busy / seconds, "host_bound": busy / seconds < 0.6, "top": top, "seconds_reading": reading}
