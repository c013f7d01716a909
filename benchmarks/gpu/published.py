"""Phase 4, the published shape: GiGPO's ALFWorld setting, 16 tasks of 8 episodes to 50 turns, 1.5B, by parts."""

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import train_arms
from train_env import Clock, PlannedEngine, env_tokenizer, planned

from agentgym.episodes.episode import groups
from agentgym.trainers.weights import sync
from gpu.machine import Cells, architecture, device, model_of, wait

UPDATES, PUBLISHED_HOURS = 150, 24.0  # updates of a run, and the H100-hours that its authors report
TURNS = (8, 12, 15, 18, 22, 26, 50, 50, 50)


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    del out, before
    for agent in ("window", "chat"):
        name = {"window": "window of 2", "chat": "full history"}[agent]
        cells.run(name, lambda kind=agent: asyncio.run(steps(kind, cells.rehearse)), 240)


async def steps(agent: str, rehearse: bool) -> dict[str, Any]:
    """Return the seconds of a step by parts: one to warm up, and the mean of the steps after it."""
    tokenizer = env_tokenizer()
    lengths = planned(997, 0, median=8.0 if rehearse else 80.0, most=16 if rehearse else 512)
    turns, tasks, group = ((3, 4), 2, 2) if rehearse else (TURNS, 16, 8)
    model = model_of(architecture("1.5B", rehearse), torch.bfloat16 if device() == "cuda" else torch.float32)
    model.resize_token_embeddings(max(model.config.vocab_size, len(tokenizer)))
    if not rehearse:
        model.gradient_checkpointing_enable()
    context = min(model.config.max_position_embeddings, 2048 if rehearse else 32768)
    engine = PlannedEngine(model, tokenizer, Clock(), lengths, slots=tasks * group, context=context, device=device())
    setting = train_arms.Setting(agent=agent, lengths=turns, tasks=tasks, group=group)
    run = train_arms.Run(setting, train_arms.ARMS["packed"], model, engine, Clock(), max(lengths))
    run.config = replace(run.config, batch_tokens=512 if rehearse else 16384)
    spent = dict.fromkeys(("rollout", "update", "weights"), 0.0)
    measured = 1
    episodes: list[Any] = []
    for number in range(1 + measured):
        marks = [time.perf_counter()]
        episodes = await run.play(number)
        marks.append(_now())
        train_arms.update(run.learner, groups(episodes), setting, run.arm, run.config)
        marks.append(_now())
        with tempfile.TemporaryDirectory():
            await sync.weight_sync(model, engine).push(number + 1)
        marks.append(_now())
        if number:
            for name, begin, end in zip(spent, marks, marks[1:], strict=False):
                spent[name] += (end - begin) / measured
    seconds = sum(spent.values())
    return {
        "seconds_per_step": seconds,
        **{f"share_{name}": part / seconds for name, part in spent.items()},
        "share_env": run.env_seconds / (measured * seconds),
        "hours_of_150_steps": seconds * UPDATES / 3600,
        "published_h100_hours": PUBLISHED_HOURS,
        "turns": sum(len(episode.turns) for episode in episodes),
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if device() == "cuda" else None,
    }


def _now() -> float:
    wait()
    return time.perf_counter()
