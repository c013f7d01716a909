"""Cell d, does the plan hold: `--plan` of a run against the peak memory and the seconds of the run itself."""

import json
from pathlib import Path
from typing import Any

import plan as plans
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.planner.forecast import forecast
from agentgym.trainers import loop
from agentgym.trainers.config.train_config import TrainConfig
from gpu.cell import Parts
from gpu.machine import device, free, low, peak, scratch

SHAPE = {"hidden_size": 896, "num_hidden_layers": 24, "intermediate_size": 4864}
"""Of Qwen2.5-0.5B, with the tokenizer and heads of a policy of our own."""
STEPS = 3


def measure(parts: Parts) -> None:
    parts.run("plan", lambda: compare_plan(parts), 20)


def policy(folder: Path, rehearse: bool) -> Path:
    """Write a policy of random weights, unless it is there."""
    if (folder / "model.safetensors").exists():
        return folder
    plans.make("small", str(folder))
    if not rehearse:
        shape = AutoConfig.from_pretrained(folder)
        for name, value in SHAPE.items():
            setattr(shape, name, value)
        shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim = 14, 2, 64
        if getattr(shape, "layer_types", None):
            shape.layer_types = ["full_attention"] * shape.num_hidden_layers
        with torch.device(device()):
            model = AutoModelForCausalLM.from_config(shape, dtype=low())
        model.save_pretrained(folder)
    return folder


def compare_plan(parts: Parts) -> dict[str, Any]:
    """Plan a run, make it, and compare; random weights give replies of their full length, so `most` is the time planned."""
    with scratch(parts.out, "planned") as folder:
        rehearse = parts.rehearse
        larger = {} if rehearse else {"tasks_per_step": 8, "batch_tokens": 8192, "concurrency": 64, "horizon": (8,)}
        options = {**plans.RUN, **larger, "model": str(policy(folder / "model", rehearse)), "steps": STEPS}
        run = folder / f"run-{parts.call}"
        config = TrainConfig(**options, out=str(run))
        made = forecast(config, timed=True)
        seconds = made.seconds
        print(f"d: planned {made.plan.need / 1e9:.2f} GB" + (f" and {seconds[1].update:.2f} s an update" if seconds else ""))
        free()
        loop.train(config)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        elapsed = [line["seconds"] for line in lines if line.get("phase") == "rl"]
        found: dict[str, Any] = {"planned_gb": made.plan.need / 1e9, "seconds_logged": elapsed}
        if seconds and len(elapsed) > 1:  # the first update also loads kernels
            each = sum(elapsed[1:]) / (len(elapsed) - 1)
            found |= {"planned_seconds": seconds[1].update, "measured_seconds": each}
            found["seconds_off"] = seconds[1].update / each - 1
        measured = peak()
        if measured:
            found |= {"measured_gb": measured / 1e9, "memory_off": made.plan.need / measured - 1}
        return found
