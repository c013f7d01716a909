"""Offline methods of LMRL-Gym on one file of poor episodes: imitation, Monte Carlo returns, implicit Q-learning.

python benchmarks/offline.py --out runs/offline --seeds 0 1 2      train what is missing; resumes where it stopped
python benchmarks/offline.py --out runs/offline --report           print the table of what is there

The file has 2,000 episodes on eight maps of FrozenLake without slipping, by an expert of whose moves 60 % are random. Every
method begins with the same imitation of all of it, and trains on nothing else. Success is over 200 attempts at the
eight maps. The policy has about 0.2 million parameters.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from seed_rows import append, half_width, lines

import agentgym
from agentgym.agents.policies import ExpertAgent, Noise

ENV = "rlvr/FrozenLake-v0"
OPTIONS = {"slip": 0.0, "pool": 8}
STORED: dict[str, Any] = {"generation": "stored", "loss": "awr", "select": "keep"}
CRITIC = {"lr": 3e-3, "updates": 50, "batch": 256, "capacity": 8192}
METHODS: dict[str, dict[str, Any]] = {
    "imitation": {"credit": "reinforce_pp", "loss_options": {"temperature": 1e6}},
    "Monte Carlo returns": {
        "credit": "reinforce_pp",
        "credit_options": {"gamma": 0.9},
        "loss_options": {"temperature": 0.5},
    },
    "Q-learning, expectile 0.5": {"credit": "archer", "expectile": 0.5},
    "implicit Q-learning, expectile 0.8": {"credit": "archer", "expectile": 0.8},
}
"""Changes of `STORED`; `imitation` gives every token the same weight, so it is the control at equal tokens."""


def data(out: Path) -> Path:
    """Return the file of poor episodes, written on the first call."""
    path = out / "poor.jsonl"
    if not path.exists():
        agent = ExpertAgent(Noise(random=0.6))
        agentgym.collect(agent, ENV, env_options=OPTIONS, split="train", tasks=8, attempts=250, out=path)
    return path


def settings(seed: int, folder: Path, model: str, **changes: Any) -> Any:
    """Return the settings of a run from a policy."""
    from agentgym.trainers.config.train_config import TrainConfig

    common: dict[str, Any] = {
        "env": ENV, "env_options": OPTIONS, "model": model, "out": str(folder), "seed": seed, "threads": 1, "prompt": "bare",
        "turn_tokens": 8, "eval_every": 0, "test_tasks": 8, "test_split": "train", "train_split": "train",
        "valid_split": "train",
    }  # fmt: skip
    return TrainConfig(**common | changes)


def start(seed: int, out: Path) -> Path:
    """Return the imitation that every method begins with."""
    from agentgym.trainers import init_policy
    from agentgym.trainers.config.imitation_config import ImitationConfig
    from agentgym.trainers.run.imitation import sft

    folder = out / f"start-{seed}"
    if not (folder / "summary.json").exists():
        policy = out / f"policy-{seed}"
        if not policy.exists():
            init_policy(ENV, policy, seed=seed, env_options=OPTIONS)
        sft(
            ImitationConfig(
                files=(str(data(out)),),
                model=str(policy),
                out=str(folder),
                seed=seed,
                epochs=2,
                batch=16,
                lr=8e-3,
                muon=True,
                prompt="bare",
            )
        )
    return Path(json.loads((folder / "summary.json").read_text())["checkpoint"])


def run(method: str, seed: int, out: Path, steps: int) -> dict[str, Any]:
    """Train by a method from the imitation, and return the row."""
    from agentgym.trainers import train

    started, changes = time.process_time(), dict(METHODS[method])
    if (expectile := changes.pop("expectile", None)) is not None:
        changes |= {
            "needs_options": {**CRITIC, "gamma": 0.9, "expectile": expectile}, "loss_options": {"temperature": 0.05},
        }  # fmt: skip
    folder = out / f"{method.replace(' ', '-').replace(',', '')}-{seed}"
    config = settings(
        seed, folder, str(start(seed, out)), generation_options={"file": str(data(out))}, steps=steps, tasks_per_step=8,
        group_size=16, lr=1e-3, **STORED, **changes,
    )  # fmt: skip
    before = success(config, Path(config.model))
    train(config)
    after = success(config, sorted((folder / "checkpoints").glob("step-*"))[-1])
    cpu = round(time.process_time() - started)
    return {"method": method, "seed": seed, "before": before, "after": after, "steps": steps, "cpu": cpu}


def success(config: Any, policy: Path) -> float:
    """Return the share of 200 attempts at the eight maps that succeed, at temperature 1."""
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    engine = HFEngine(str(policy), slots=64)
    agent = config.spec.make(engine, Sampling(temperature=1.0), engine.tokenizer)
    played = agentgym.collect(agent, ENV, env_options=OPTIONS, split="train", tasks=8, attempts=25)
    return float(np.mean([episode.success is True for episode in played]))


def report(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of methods, with gains over imitation at equal tokens and Student's 95 % intervals over seeds."""
    lines = [
        "| method | seeds | start | end | against imitation, paired by seed | CPU seconds |",
        "|---|---|---|---|---|---|",
    ]
    control = {row["seed"]: row["after"] for row in rows if row["method"] == "imitation"}
    for method in METHODS:
        mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row["seed"])
        if not mine:
            continue
        gains = np.array([100 * (row["after"] - control[row["seed"]]) for row in mine if row["seed"] in control])
        if not len(gains):  # no control yet
            gains = np.array([np.nan])
        half = half_width(gains)
        gain = f"{gains.mean():+.1f} ({gains.mean() - half:+.1f} to {gains.mean() + half:+.1f})"
        shares = [", ".join(f"{100 * row[key]:.1f} %" for row in mine) for key in ("before", "after")]
        cpu = ", ".join(str(row["cpu"]) for row in mine)
        cells = (method, str(len(mine)), *shares, "" if method == "imitation" else gain, cpu)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--methods", nargs="*", choices=[*METHODS], default=[*METHODS])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("runs/offline"))
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    path = args.out / "rows.jsonl"
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in [] if args.report else args.seeds:
        for method in args.methods:
            if not any((row["method"], row["seed"]) == (method, seed) for row in lines(path)):
                row = run(method, seed, args.out, args.steps)
                append(path, row)
                print(row, flush=True)
    print("\n".join(report(lines(path))))


if __name__ == "__main__":
    main()
