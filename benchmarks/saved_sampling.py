"""Saved sampling: what drafts of the last epoch (`spec`) and episodes that end early (`prune`) save of a training step.

    python benchmarks/saved_sampling.py [--rounds 2] [--epochs 3] [--lr 1e-3] [--out saved_sampling.json]

Household `tiny`, so few tasks that each comes again every two steps; one SFT warm start, then training runs with each
generation and with `plain` in turn (A B B A ...), the same tasks, seeds and starting weights. Steps of the first epoch,
which has nothing to build on, are not counted. Printed are tokens that were decoded one at a time, and seconds of the
rollouts by the clock and of CPU, as ratios to those of `plain` in the same pair.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import agentgym
from agentgym import Task, read_episodes
from agentgym.envs.household.env import Household

TASKS, PER_STEP, GROUP = 8, 4, 8
ARMS: dict[str, dict[str, Any]] = {
    "spec": {"generation": "spec"},
    "spec, known 0": {"generation": "spec", "generation_options": {"known": 0}},
    "prune": {"generation": "prune", "generation_options": {"turns": 3, "least": 32, "whole": 0.1}},
}
POLICY = {"prompt": "bare", "turn_tokens": 16, "threads": 1, "eval_every": 0, "test_tasks": 0}
HOUSES = {"preset": "tiny", "search": "listed"}
WARM = {"sft_episodes": 640, "sft_batch": 16, "sft_lr": 8e-3, "sft_noise": 0.14, "sft_invalid": 0.05, "sft_forget": 0.03}


class Few(Household):
    """So few houses, as of a file."""

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        return super().numbered(number % TASKS, split, difficulty)

    def size(self, split: str | None = None) -> int:
        return TASKS


if __name__ == Path(__file__).stem:  # as the run imports it
    agentgym.register("bench/Few-v0", Few, horizon=12)


def timed(folder: Path, model: str, epochs: int, lr: float, arm: dict[str, Any]) -> dict[str, float]:
    """Train and return what the rollouts after the first epoch took."""
    from agentgym.trainers import TrainConfig, train

    first = TASKS // PER_STEP
    clock: list[float] = []
    seconds: dict[str, list[float]] = {"clock": [], "cpu": []}

    def show(kind: str, numbers: dict[str, Any]) -> None:
        now = [time.perf_counter(), time.process_time()]
        if kind == "progress" and "updating" in numbers["what"] and clock:
            for name, before, after in zip(seconds, clock, now, strict=True):
                seconds[name].append(after - before)
        if kind == "step":
            clock[:] = now

    config = TrainConfig(
        env=f"{Path(__file__).stem}:bench/Few-v0", env_options=HOUSES, model=model, out=str(folder),
        steps=first * epochs, tasks_per_step=PER_STEP, group_size=GROUP, concurrency=32, select="keep", minibatches=1,
        credit="rloo", lr=lr, keep_episodes=10_000, checkpoint_every=10_000, **POLICY, **arm,
    )  # fmt: skip
    train(config, show)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["phase"] == "rl" and row["step"] > first]
    late = [e for e in read_episodes(folder / "episodes.jsonl") if int(e.group_id.partition("/")[0]) > first]
    sampled = sum(turn.sampled for episode in late for turn in episode.turns)
    offered, kept_tokens, pruned = (
        sum(row.get(name, 0.0) for row in rows) for name in ("draft_tokens", "draft_tokens_kept", "pruned_tokens")
    )
    return {
        "decoded": sampled + pruned - kept_tokens, "said": sampled, "offered": offered, "kept": kept_tokens,
        "pruned": pruned,
        "episodes": len(late), "pruned_episodes": sum(row.get("pruned_episodes", 0.0) for row in rows),
        "success": statistics.mean(row["success_train"] for row in rows),
        **{name: sum(values[first - 1 :]) for name, values in seconds.items()},
    }  # fmt: skip


def main() -> None:
    """Run every arm beside `plain`, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        from agentgym.trainers import TrainConfig, train

        folder = Path(temporary)
        warm = TrainConfig(env="rlvr/Household-v0", env_options=HOUSES, out=str(folder / "warm"), steps=0, **WARM, **POLICY)
        train(warm)
        for name, arm in ARMS.items():
            for number in range(arguments.rounds):
                pair: dict[str, Any] = {"load": os.getloadavg()[0]}
                for which in ("plain", "arm") if number % 2 == 0 else ("arm", "plain"):
                    out = folder / f"{name} {number} {which}"
                    pair[which] = timed(out, warm.out, arguments.epochs, arguments.lr, arm if which == "arm" else {})
                found.setdefault(name, []).append(pair)
                print(name, json.dumps(pair), flush=True)
            cells = [f"{name}:"]
            for what in ("decoded", "clock", "cpu"):
                ratios = [pair["arm"][what] / pair["plain"][what] for pair in found[name]]
                cells.append(f"{what} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            print(*cells, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
