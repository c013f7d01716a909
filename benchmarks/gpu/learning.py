"""Cell e, does it learn: the recipe `household` with a policy of 20 M parameters, success by second."""

import json
import signal
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

from gpu.cell import Parts
from gpu.machine import scratch

LARGE = ["--width", "512", "--layers", "8", "--episodes", "300"]  # about 20 M parameters
WIDER = 512 / 128  # than the recipe's own policy: learning rates of Adam and Muon go down with the width
FLAGS = [
    "--sft-lr", str(8e-3 / WIDER), "--lr", str(1e-3 / WIDER), "--batch-tokens", "32768", "--concurrency", "128",
    "--no-share-prefixes",  # so that attention is flash where it is there
]  # fmt: skip
SHORT = ["--sft-episodes", "5760", "--test-tasks", "0", "--eval-every", "5", "--eval-tasks", "64"]  # half of the recipe's
SMALL = [
    "--sft-episodes", "64", "--steps", "2", "--tasks-per-step", "2", "--group-size", "2", "--test-tasks", "4",
    "--eval-every", "1", "--eval-tasks", "4", "--select", "keep",
]  # fmt: skip
MARGIN = 12.0
"""Seconds in which a run that is asked to stop leaves a checkpoint."""


def measure(parts: Parts) -> None:
    with scratch(parts.out, "learning") as folder:
        parts.run("policy", lambda: policy(folder / "policy", parts.rehearse), 15)
        parts.run("household", lambda: train(parts, folder / "run", folder / "policy"), 25)


def agentgym(*words: str) -> list[str]:
    return [sys.executable, "-m", "agentgym", *words]


def policy(folder: Path, rehearse: bool) -> dict[str, Any]:
    """Make the policy from nothing."""
    sizes = ["--width", "64", "--layers", "2", "--episodes", "100"] if rehearse else LARGE
    words = ["--env.preset", "tiny", "--env.search", "listed", *sizes, "--out", str(folder)]
    subprocess.run(agentgym("init-policy", "rlvr/Household-v0", *words), check=True, stdin=subprocess.DEVNULL, timeout=120)
    return {"bytes": (folder / "model.safetensors").stat().st_size}


def train(parts: Parts, run: Path, folder: Path) -> dict[str, Any]:
    """Begin the run, or go on with it, and stop it in time with a checkpoint."""
    if (run / "config.toml").exists() or (run / "metrics.jsonl").exists():
        command = agentgym("train", "--resume", str(run))
    else:
        words = ["--model", str(folder), "--processes", "1", *FLAGS, *(SMALL if parts.rehearse else SHORT)]
        command = agentgym("train", "household", *words, "--out", str(run))
    print("+", *command)
    began, stopped = time.monotonic(), False
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        code = process.wait(max(parts.left() - MARGIN, 1))
    except subprocess.TimeoutExpired:
        stopped = True
        process.send_signal(signal.SIGINT)  # leaves a checkpoint
        code = process.wait(max(parts.left() - 2, 1))
    found = curve(run)
    found |= {"seconds": time.monotonic() - began, "stopped": stopped, "exit": code}
    if code and not stopped:
        raise RuntimeError(f"training ended with {code}; {found}")
    return found


def curve(run: Path) -> dict[str, Any]:
    """Return success by second, from the metrics that are there."""
    file = run / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    trained = [line for line in lines if line.get("phase") == "rl"]
    clock = accumulate(line["seconds"] for line in trained)  # without the warm start
    points = [
        [line["step"], round(seconds, 2), line.get("success_train"), line.get("success_valid")]
        for line, seconds in zip(trained, clock, strict=True)
    ]
    return {"updates": len(trained), "step_seconds_train_valid": points}
