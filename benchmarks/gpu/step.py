"""Phase 3, the speed of the step: what share of the device's operations an update uses, and what the plan said of memory."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from agentgym.episodes.episode import Episode, Turn, groups
from agentgym.planner.dry_run import Rows, update_bytes
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.model import lora
from agentgym.trainers.model.precision import masters
from gpu.machine import Cells, architecture, device, limits, model_of, parameters, wait

ROW, TRAINED, ROWS = 8192, 2048, 8
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "compiled": {"compile": True},
    "LoRA": {"lora_rank": 32},
    "LoRA, gradient checkpointing": {"lora_rank": 32, "gradient_checkpointing": True},
    "8-bit Adam, gradient checkpointing": {"optimizer": "adam8bit", "gradient_checkpointing": True},
}


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    del out, before
    cells.run("limits", lambda: limits(cells.rehearse), 30)
    rate = cells.results["limits"].get("operations_per_second", float("nan"))
    for size in ("tiny",) if cells.rehearse else ("0.5B", "1.5B", "7B"):
        for name, options in CASES.items():
            if size == "7B" and not options.get("gradient_checkpointing"):
                continue
            if name.startswith("8-bit") and not _torchao():
                print(f"{size}, {name}: not run, there is no torchao here")
                continue
            cells.run(f"{size}, {name}", lambda s=size, o=options: update(s, o, rate, cells.rehearse), 90)


def _torchao() -> bool:
    import importlib.util

    return importlib.util.find_spec("torchao") is not None


def rows_of(number: int, length: int, trained: int, vocabulary: int) -> list[Episode]:
    """Return episodes of one row each: turns of 32 tokens between observations, half of the episodes paid."""
    rng = np.random.default_rng(0)
    reply, turns = 32, trained // 32
    gap = (length - trained) // turns
    episodes: list[Episode] = []
    for index in range(number):
        held: list[int] = []
        made: list[Turn] = []
        for turn in range(turns):
            held = held + rng.integers(1, vocabulary, gap).tolist()
            output = rng.integers(1, vocabulary, reply).tolist()
            logprobs = [-float(np.log(vocabulary))] * reply
            made.append(Turn("o", prompt_ids=held, output_ids=output, logprobs=logprobs))
            made[-1].reward = float(index % 2) if turn == turns - 1 else 0.0
            held = held + output
        episodes.append(Episode("measured", f"task {index // 2}", f"task {index // 2}", index % 2, turns=made))
    return episodes


def update(size: str, options: dict[str, Any], rate: float, rehearse: bool) -> dict[str, Any]:
    """Return seconds and utilisation of an update after one to warm up, and its measured and planned peak memory."""
    length, trained, number = (256, 64, 4) if rehearse else (ROW, TRAINED, ROWS)
    precision = "bf16" if device() == "cuda" else "fp32"
    config = replace(
        TrainConfig(
            model="Qwen/Qwen2.5-1.5B",  # only its name is looked at: LoRA is refused for a model that is made from nothing
            env="rlvr/Household-v0",
            minibatches=1,
            batch_tokens=length,
            grad_clip=1.0,
            precision=precision,
        ),
        **options,
    )
    shape = architecture(size, rehearse)
    wait()
    if device() == "cuda":
        torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated() if device() == "cuda" else 0
    model = model_of(shape, torch.bfloat16 if precision == "bf16" else torch.float32)
    if config.lora_rank:
        lora.add_adapters(model, config)
        model.to(device())
    accelerator = Accelerator(cpu=device() == "cpu")
    scorer = Scorer(model, 1.0, gradient_checkpointing=config.gradient_checkpointing, compiled=config.compile)
    learner = TrainedModel(accelerator, scorer, [])
    learner.masters = masters(model, precision, 1)
    learner.optimizers = list(optimizers(learner.masters or model, 1e-6, muon=False, kind=config.optimizer))
    found = groups(rows_of(number, length, trained, shape.vocab_size))
    times: list[float] = []
    for step in range(3):
        wait()
        began = time.perf_counter()
        reinforce(learner, found, resolve("grpo"), config, step)
        wait()
        times.append(time.perf_counter() - began)
    seconds = min(times[1:])
    planned = update_bytes(shape, config, Rows(1, length, trained, number), gpu=device() == "cuda")
    standing = planned.weights + planned.masters + planned.gradients + planned.optimizer
    peak = standing + max(planned.activations + planned.logits, planned.stepping)
    result = {
        "seconds": seconds,
        "tokens_per_second": number * length / seconds,
        "utilisation": operations(model, shape, number, length, trained, config) / seconds / rate,
        "attention": scorer.method,
        "planned_peak_gb": peak / 1e9,
    }
    if device() == "cuda":
        measured = torch.cuda.max_memory_allocated() - base
        result |= {"measured_peak_gb": measured / 1e9, "plan_off": peak / measured - 1}
    return result


def operations(model: Any, shape: Any, rows: int, length: int, trained: int, config: TrainConfig) -> float:
    """Return the operations that the model needs (recomputation is not counted): forward, and twice that backward.

    Frozen weights have no gradient of their own, so LoRA needs two thirds.
    """
    vocabulary = shape.vocab_size * shape.hidden_size
    body = parameters(model) - vocabulary * (1 if shape.tie_word_embeddings else 2)
    forward = 2 * body * rows * length + 2 * vocabulary * rows * trained
    forward += 2 * shape.num_hidden_layers * shape.hidden_size * rows * length**2  # causal: half of the square
    return forward * (2 if config.lora_rank else 3)
