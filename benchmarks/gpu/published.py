"""Cell b, what the published setting costs: GiGPO's on ALFWorld, 16 tasks of 8 episodes, window of 2, 1.5B, in bf16."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import train_arms
from accelerate import Accelerator
from train_env import Clock, PlannedEngine, env_tokenizer

from agentgym.episodes.episode import groups
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.model.precision import masters
from agentgym.trainers.weights import sync
from gpu.cell import Parts
from gpu.machine import architecture, check_room, device, limits, low, model_of, now, parameters, peak, sampling_bytes

TURNS, HORIZON, STEPS = 6, 50, 150
H100_HOURS, A100_SECONDS = 24.0, 1816.0
"""Of a published run of 150 steps (1.5B, two H100 together), and of a step of another on four A100 (3B)."""


def measure(parts: Parts) -> None:
    parts.run("limits", lambda: limits(parts.rehearse), 5)
    parts.run("step", lambda: step(parts), 70)


def step(parts: Parts) -> dict[str, Any]:
    """Play 6 of 50 turns and make one whole update; return seconds by part, and what 50 turns and 150 steps would take."""
    rehearse = parts.rehearse
    turns, tasks, group, reply, context = (2, 2, 2, 8, 2048) if rehearse else (TURNS, 16, 8, 60, 4096)
    tokenizer = env_tokenizer()
    shape = architecture("1.5B", rehearse)
    model = model_of(shape, low())
    check_room(sampling_bytes(shape, tasks * group, context, parameters(model)), "sampling")
    clock = Clock()
    engine = PlannedEngine(model, tokenizer, clock, [reply], slots=tasks * group, context=context, device=device())
    env = {"preset": "tiny" if rehearse else "full"}
    setting = train_arms.Setting(agent="window", lengths=(turns,), tasks=tasks, group=group, reply=reply, env=env)
    run = train_arms.Run(setting, train_arms.ARMS["packed"], model, engine, clock, reply)
    config = replace(
        run.config, batch_tokens=1024 if rehearse else 16_384, gradient_checkpointing=not rehearse,
        precision="bf16" if device() == "cuda" else "fp32",
    )  # fmt: skip
    print(f"b: a model of {parameters(model) / 1e6:.0f} M parameters and {tasks * group} slots are there")
    marks = [now()]
    asyncio.run(run.play(0))  # two episodes, to warm up
    marks.append(now())
    clock.engine, engine.prefilled, engine.decoded, run.env_seconds = 0.0, 0, 0, 0.0
    episodes = asyncio.run(run.play(1))
    marks.append(now())
    print(f"b: {len(episodes)} episodes of {turns} turns took {marks[-1] - marks[-2]:.1f} s; the update begins")
    found = _trained(model, episodes, config)
    asyncio.run(_publish(model, engine))
    marks.append(now())
    return _summary(marks, turns, clock, engine, run.env_seconds, episodes, found)


def _trained(model: Any, episodes: Sequence[Any], config: Any) -> dict[str, Any]:
    """Make one update of all rows and return its seconds, the second of two: the first also makes what stays."""
    accelerator = Accelerator(cpu=device() == "cpu")
    scorer = Scorer(model, 1.0, gradient_checkpointing=config.gradient_checkpointing)
    trained = TrainedModel(accelerator, scorer, [])
    trained.masters = masters(model, config.precision, 1)
    trained.optimizers = list(optimizers(trained.masters or model, 1e-6, muon=False))
    began = now()
    few = [episode for episode in episodes if episode.task_id == episodes[0].task_id]
    reinforce(trained, groups(few), resolve("gigpo"), config, 0)
    warm = now()
    metrics = reinforce(trained, groups(list(episodes)), resolve("gigpo"), config, 1)
    ended = now()
    if not metrics["grad_norm"] > 0:
        raise AssertionError("the update had no gradient")
    found = {"seconds_warm_up": warm - began, "seconds_update": ended - warm, "attention": scorer.method}
    return found | {"mismatch": metrics.get("mismatch_mean", metrics.get("mismatch"))}


async def _publish(model: Any, engine: Any) -> None:
    with tempfile.TemporaryDirectory():
        await sync.weight_sync(model, engine).push(1)


def _summary(
    marks: list[float], turns: int, clock: Clock, engine: Any, env: float, episodes: Sequence[Any], found: dict[str, Any]
) -> dict[str, Any]:
    rollout, update = marks[2] - marks[1], found["seconds_update"]
    whole = (rollout + update) * HORIZON / turns
    lines = [len(turn.prompt_ids) for episode in episodes for turn in episode.turns]
    return {
        "seconds_rollout": rollout,
        "seconds_engine": clock.engine,
        "seconds_environment": env,
        **found,
        "turns": len(lines),
        "prompt_tokens": sum(lines) / len(lines),
        "prefilled": engine.prefilled,
        "decoded": engine.decoded,
        "peak_gb": (peak() or 0) / 1e9,
        "extrapolated_seconds_per_step": whole,
        "extrapolated_hours_of_150_steps": whole * STEPS / 3600,
        "published_h100_hours": H100_HOURS,
        "published_seconds_per_step_on_4_a100": A100_SECONDS,
    }
