"""The plan's bytes against the measured peak of real runs of several shapes, each in a process of its own.

    python benchmarks/plan.py [--cases "small;medium"] [--mapped] [--out plan.json]

Every case is `train` over two steps of Household `tiny` with random weights, so that every reply has its full length and
every episode fills its context: the longest rows that the plan reckons with are there, nearly. The credit is +1 and -1 in
turn, for rows without advantage would be left out. `measured` is the most the process ever held (ru_maxrss) less what it
held after its imports; `planned` is the plan's worst phase less the same part of it. `--mapped` has glibc give every
large tensor pages of its own (MALLOC_MMAP_THRESHOLD_), so that what is freed goes back at once.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import agentgym

SHAPES: dict[str, dict[str, int]] = {
    "small": {},
    "medium": {"width": 512, "layers": 6, "heads": 8, "feed_forward": 1536},
    "large": {"width": 1024, "layers": 8, "heads": 16, "feed_forward": 3072},
    "vocabulary": {"width": 256, "layers": 4, "heads": 4, "feed_forward": 512},
}
VOCABULARY = 151_936
"""Of the shape `vocabulary`: that of Qwen3."""
RUN: dict[str, Any] = {
    "env": "rlvr/Household-v0",
    "env_options": {"preset": "tiny"},
    "horizon": (14,),
    "context_tokens": 192,
    "turn_tokens": 16,
    "tasks_per_step": 1,
    "group_size": 8,
    "minibatches": 1,
    "concurrency": 8,
    "batch_tokens": 1024,
    "steps": 2,
    "eval_every": 0,
    "eval_tasks": 0,
    "test_tasks": 0,
    "threads": 1,
    "select": "keep",
    "credit": "plan:alternating",
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "small": ("small", {}),
    "small, 64 episodes": ("small", {"concurrency": 64, "tasks_per_step": 8}),
    "medium": ("medium", {}),
    "medium, Muon": ("medium", {"muon": True}),
    "medium, kl": ("medium", {"kl": 0.01}),
    "medium, LoRA": ("medium", {"lora_rank": 16}),
    "medium, rows": ("medium", {"attention": "rows"}),
    "medium, gradient_checkpointing": ("medium", {"gradient_checkpointing": True}),
    "vocabulary": ("vocabulary", {}),
    "large": ("large", {}),
    "large, gradient_checkpointing": ("large", {"gradient_checkpointing": True}),
    "medium, bf16": ("medium", {"precision": "bf16"}),
}


@agentgym.credit("alternating")
def alternating(group: Sequence[Any]) -> list[Any]:
    """Return +1 for every other episode of a group and -1 for the rest."""
    return [np.full(len(episode.turns), 1.0 - 2.0 * (i % 2)) for i, episode in enumerate(group)]


def make(shape: str, folder: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    from agentgym.trainers.model.policy import PolicySize, init_policy

    init_policy(RUN["env"], folder, env_options=RUN["env_options"], size=PolicySize(**SHAPES[shape]), episodes=200)
    if shape == "vocabulary":
        architecture = AutoConfig.from_pretrained(folder)
        architecture.vocab_size = VOCABULARY
        AutoModelForCausalLM.from_config(architecture).save_pretrained(folder)


def measure(options: dict[str, Any]) -> None:
    from agentgym.trainers import loop
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.model.memory import process_bytes

    before = process_bytes()
    loop.train(TrainConfig(**options))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"measured": peak - before, "process": before}))


def planned(options: dict[str, Any]) -> None:
    from agentgym.planner.plan import plan, read_workload
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.model.memory import FIRST_USE

    config = TrainConfig(**options)
    made = plan(config, read_workload(config))
    own = next(part.bytes[0] for part in made.parts if part.name == "process") - FIRST_USE
    parts = {part.name: max(part.bytes) for part in made.parts}
    phases = [phase - own for phase in made.phases]
    print(json.dumps({"planned": made.need - own, "phases": phases, "parts": parts, "row": made.row}))


def child(what: str, options: dict[str, Any], mapped: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", what, json.dumps(options)]
    environment = {**os.environ, **({"MALLOC_MMAP_THRESHOLD_": "65536"} if mapped else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=";".join(CASES), help="separated by semicolons")
    parser.add_argument("--out", default="")
    parser.add_argument("--mapped", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        options = json.loads(arguments.child[1])
        options["horizon"] = tuple(options["horizon"])
        {"measure": measure, "planned": planned}[arguments.child[0]](options)
        return
    rows = []
    print(f"{'case':<28}{'planned':>10}{'measured':>10}{'off':>8}   MiB, without the process itself")
    for name in arguments.cases.split(";"):
        shape, changes = CASES[name]
        with tempfile.TemporaryDirectory() as scratch:
            make(shape, f"{scratch}/model")
            options = {**RUN, **changes, "model": f"{scratch}/model", "out": f"{scratch}/run"}
            row = {
                "case": name,
                **child("planned", options, arguments.mapped),
                **child("measure", options, arguments.mapped),
            }
        row["off"] = row["planned"] / row["measured"] - 1
        rows.append(row)
        print(f"{name:<28}{row['planned'] / 2**20:>10,.0f}{row['measured'] / 2**20:>10,.0f}{row['off']:>+8.1%}", flush=True)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
