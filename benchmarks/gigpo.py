"""GiGPO against GRPO, paired by SFT warm start: the same small grid for every arm, chosen on seen rooms, tested on unseen.

python benchmarks/gigpo.py --out runs/gigpo --jobs 2             everything; resumes where it stopped
python benchmarks/gigpo.py --out runs/gigpo --report             the tables from what is there
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ARMS = {
    "grpo": {"credit": "grpo", "credit_options": {"penalty": 0.01, "penalty_order": "before"}},
    "gigpo-observation": {
        "credit": "gigpo",
        "credit_options": {"penalty": 0.01, "penalty_order": "before", "anchor": "observation", "step_weight": 1.0},
    },
    "gigpo-state": {
        "credit": "gigpo",
        "credit_options": {"penalty": 0.01, "penalty_order": "before", "anchor": "state", "step_weight": 1.0},
    },
}
GRID = [(lr, clip) for lr in (5e-4, 1e-3, 2e-3) for clip in (0.2, 0.3)]
GRID_SEEDS = (100,)  # never used in the final comparison
SEEDS = tuple(range(8))


def base(**changes):
    """Return the configuration that all runs share; fixed before any arm was tuned."""
    from agentgym.trainers.config.train_config import TrainConfig

    return TrainConfig(
        **{
            "env": "rlvr/Household-v0",
            "env_options": {"preset": "tiny", "search": "listed"},
            "turn_tokens": 16,
            "threads": 1,
            "batch_tokens": 4096,
            "sft_batch": 16,
            "sft_lr": 8e-3,
            "sft_noise": 0.06,
            "sft_invalid": 0.03,
            "lr_warmup": 4,
            "min_lr_ratio": 0.25,
            "negative_advantage_weight": 0.5,
            "tasks_per_step": 16,
            "group_size": 8,
            "valid_split": "valid_seen",
            "test_split": "valid_unseen",
            "test_tasks": 0,
            "eval_every": 0,
            "checkpoint_every": 1000,
            "keep_episodes": 0,
            "select": "keep",
            **changes,
        }
    )


def sft_run(out, seed, episodes):
    """The SFT warm start of a seed: shared by all arms."""
    return base(out=str(out / f"warm-{seed}"), seed=seed, sft_episodes=episodes, steps=0)


def arm_run(out, stage, arm, seed, lr, clip, steps):
    """One run of an arm from its seed's SFT warm start."""
    warm = sorted((out / f"warm-{seed}" / "checkpoints").glob("step-*"))[-1]
    return base(
        out=str(out / f"{stage}-{arm}-{seed}-{lr}-{clip}"),
        seed=seed,
        model=str(warm),
        steps=steps,
        lr=lr,
        clip_low=clip,
        clip_high=clip,
        **ARMS[arm],
    )


def run_all(configs, jobs):
    """Run the configurations that have no result yet, several processes at once."""
    todo = [c for c in configs if not (Path(c.out) / "summary.json").exists()]
    running: list[tuple[subprocess.Popen, str]] = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.time()
    for number, config in enumerate(todo, 1):
        while len(running) >= jobs:
            running = wait(running)
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            from agentgym.trainers.config.recipe_files import to_toml

            file.write(to_toml(config))
        resume = (Path(config.out) / "config.toml").exists()
        words = ["--resume", config.out] if resume else [file.name]
        log = Path(f"{config.out}.log").open("a")  # noqa: SIM115  # lives as long as the process
        command = [sys.executable, "-m", "agentgym", "train", *words]
        running.append((subprocess.Popen(command, env=environment, stdout=log, stderr=log), config.out))
        print(f"{number}/{len(todo)} {config.out} ({time.time() - started:.0f} s)", flush=True)
    while running:
        running = wait(running)


def wait(running):
    """Return the processes still running; stop everything when one failed."""
    time.sleep(0.5)
    for process, out in running:
        if process.poll() not in (None, 0):
            for other, _ in running:
                other.terminate()
            sys.exit(f"{out} failed with code {process.returncode}: see {out}.log")
    return [(p, o) for p, o in running if p.poll() is None]


def success(folder, split, tasks):
    """Play the last checkpoint of a run on a split at temperature 1; return outcomes by task, kept in a file."""
    path = Path(folder) / f"{split}-{tasks}.json"
    if not path.exists():
        import torch

        import agentgym
        from agentgym.agents.chat import ChatAgent
        from agentgym.engines.hf.engine import HFEngine

        torch.set_num_threads(1)
        newest = sorted((Path(folder) / "checkpoints").glob("step-*"))[-1]
        agent = ChatAgent(HFEngine(str(newest), slots=128), prompt="bare", turn_tokens=16)
        episodes = agentgym.collect(agent, "rlvr/Household-v0", env_options={"preset": "tiny"}, split=split, tasks=tasks)
        path.write_text(json.dumps({e.task_id: float(e.success is True) for e in episodes}))
    return json.loads(path.read_text())


def score_all(folders, split, tasks, jobs):
    """Evaluate run folders, several processes at once."""
    missing = [str(f) for f in folders if not (Path(f) / f"{split}-{tasks}.json").exists()]
    running: list[tuple[subprocess.Popen, str]] = []
    for folder in missing:
        while len(running) >= jobs:
            running = wait(running)
        command = [sys.executable, __file__, "--score", folder, split, str(tasks)]
        running.append((subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}), folder))
    while running:
        running = wait(running)


def anchors(folder):
    """Mean anchor-group size and share of singletons over a run."""
    rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["phase"] == "rl"]
    return float(np.mean([r["anchor_size"] for r in rows])), float(np.mean([r["anchor_singletons"] for r in rows]))


def report(out, chosen, tasks):
    """Return the tables as Markdown."""
    from agentgym.evaluate.statistics import paired_difference

    finals = {arm: {} for arm in ARMS}
    lines = ["| arm | lr | clip | success, mean of 8 seeds | anchor size | singletons |", "|---|---|---|---|---|---|"]
    for arm, (lr, clip) in chosen.items():
        sizes = []
        for seed in SEEDS:
            folder = out / f"final-{arm}-{seed}-{lr}-{clip}"
            found = success(folder, "valid_unseen", tasks)
            finals[arm][str(seed)] = [float(np.mean(list(found.values())))]
            sizes.append(anchors(folder))
        size, single = np.mean(sizes, axis=0)
        mean = np.mean([v[0] for v in finals[arm].values()])
        cells = ("-", "-") if arm == "grpo" else (f"{size:.1f}", f"{single:.1%}")
        lines.append(f"| {arm} | {lr:g} | {clip:g} | {mean:.1%} | {cells[0]} | {cells[1]} |")
    lines += ["", "| difference | mean | 95 % interval over seeds |", "|---|---|---|"]
    for arm in ("gigpo-observation", "gigpo-state"):
        d = paired_difference(finals[arm], finals["grpo"])
        lines.append(f"| {arm} - grpo | {100 * d.mean:+.1f} points | {100 * d.low:+.1f} to {100 * d.high:+.1f} |")
    d = paired_difference(finals["gigpo-state"], finals["gigpo-observation"])
    lines.append(
        f"| gigpo-state - gigpo-observation | {100 * d.mean:+.1f} points | {100 * d.low:+.1f} to {100 * d.high:+.1f} |"
    )
    warm = [np.mean(list(success(out / f"warm-{s}", "valid_unseen", tasks).values())) for s in SEEDS]
    lines += ["", f"SFT warm starts: {np.mean(warm):.1%} (from {min(warm):.1%} to {max(warm):.1%})."]
    lines += ["", "Per seed: " + json.dumps({arm: [round(v[0], 3) for v in finals[arm].values()] for arm in finals})]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/gigpo"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sft-episodes", type=int, default=7200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--score", nargs=3, metavar=("FOLDER", "SPLIT", "TASKS"))
    options = parser.parse_args()
    if options.score:
        success(options.score[0], options.score[1], int(options.score[2]))
        return
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    grid = [(arm, seed, lr, clip) for seed in GRID_SEEDS for lr, clip in GRID for arm in ARMS]
    if not options.report:
        run_all([sft_run(out, seed, options.sft_episodes) for seed in (*GRID_SEEDS, *SEEDS)], options.jobs)
        run_all([arm_run(out, "grid", arm, s, lr, clip, options.steps) for arm, s, lr, clip in grid], options.jobs)
        score_all(
            [out / f"grid-{arm}-{s}-{lr}-{clip}" for arm, s, lr, clip in grid], "valid_seen", options.tasks, options.jobs
        )
    table = {}
    for arm in ARMS:
        for lr, clip in GRID:
            rates = [success(out / f"grid-{arm}-{s}-{lr}-{clip}", "valid_seen", options.tasks) for s in GRID_SEEDS]
            table[arm, lr, clip] = float(np.mean([np.mean(list(rate.values())) for rate in rates]))
    chosen = {arm: max(GRID, key=lambda pair, arm=arm: table[arm, *pair]) for arm in ARMS}
    finals = [(arm, seed, *chosen[arm]) for seed in SEEDS for arm in ARMS]
    if not options.report:
        run_all([arm_run(out, "final", arm, s, lr, clip, options.steps) for arm, s, lr, clip in finals], options.jobs)
        folders = [out / f"final-{arm}-{s}-{lr}-{clip}" for arm, s, lr, clip in finals]
        score_all([*folders, *(out / f"warm-{s}" for s in SEEDS)], "valid_unseen", options.tasks, options.jobs)
    text = report(out, chosen, options.tasks)
    grid_lines = [f"{arm} lr {lr:g} clip {clip:g}: {rate:.1%}" for (arm, lr, clip), rate in table.items()]
    (out / "report.md").write_text(text + "\n\nGrid on valid_seen:\n" + "\n".join(grid_lines) + "\n")
    print(text)
    print("\n".join(grid_lines))
    shared = {k: v for k, v in dataclasses.asdict(base(steps=options.steps)).items() if k != "out"}
    (out / "setting.json").write_text(json.dumps(shared, indent=2))


if __name__ == "__main__":
    main()
