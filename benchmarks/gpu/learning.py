"""Phase 5, learning: a policy of about 100 M parameters made from nothing, on houses of the published size.

One call trains for eight minutes and leaves a checkpoint; the next goes on from it (`--before` the folder of the last).
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gpu.machine import MINUTES, Cells

SECONDS = MINUTES * 60 - 30
LARGE = ["--width", "960", "--layers", "12", "--context", "4096"]  # about 100 M parameters
RUNS = {"gigpo": ["--credit", "gigpo", "--seed", "0"], "grpo": ["--credit", "grpo", "--seed", "0"]}
FULL = [
    "--env.preset", "full", "--agent", "window", "--prompt", "bare", "--temperature", "1.2", "--turn-tokens", "16",
    "--horizon", "50", "--context-tokens", "2048", "--tasks-per-step", "16", "--group-size", "8", "--lr", "2e-4",
    "--sft-lr", "1e-3", "--sft-episodes", "20000", "--steps", "150", "--eval-every", "10", "--eval-tasks", "64",
    "--test-tasks", "134", "--concurrency", "256", "--processes", "1",
]  # fmt: skip
SMALL = [
    "--env.preset", "tiny", "--sft-episodes", "64", "--steps", "2", "--tasks-per-step", "2", "--group-size", "2",
    "--test-tasks", "4", "--eval-every", "0", "--processes", "1", "--select", "keep",
]  # fmt: skip


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    for name, flags in RUNS.items():
        cells.run(name, lambda n=name, f=flags: train(n, f, out, before, cells.rehearse), SECONDS - 60)


def policy(out: Path, rehearse: bool) -> Path:
    """Return the folder of a policy made from nothing, the same for all runs."""
    folder = out / "policy"
    if not folder.exists():
        sizes = ["--width", "64", "--layers", "2"] if rehearse else LARGE
        command = [sys.executable, "-m", "agentgym", "init-policy", "rlvr/Household-v0", *sizes, "--out", str(folder)]
        subprocess.run(command, check=True)
    return folder


def train(name: str, flags: list[str], out: Path, before: Path | None, rehearse: bool) -> dict[str, Any]:
    """Begin a run, or go on with it, and stop it in time with a checkpoint; an unfinished run is tried again next time."""
    run = out / f"run-{name}"
    if before and (before / run.name).exists() and not run.exists():
        shutil.copytree(before / run.name, run)
    command = [sys.executable, "-m", "agentgym", "train"]
    if (run / "config.toml").exists() or (run / "metrics.jsonl").exists():
        command += ["--resume", str(run)]
    else:
        command += ["--env", "rlvr/Household-v0", *flags, *(SMALL if rehearse else FULL)]
        command += ["--model", str(policy(out, rehearse)), "--out", str(run)]
    print("+", *command)
    began = time.monotonic()
    process = subprocess.Popen(command)
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # leaves a checkpoint
        process.wait(60)
        raise RuntimeError(f"not finished after {time.monotonic() - began:.0f} s; the next call goes on") from None
    if code:
        raise RuntimeError(f"training ended with {code}")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return {key: summary.get(key) for key in ("success_before", "success_sft", "success_after", "train_seconds", "seed")}
