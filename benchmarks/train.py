"""A whole training step, ours against three others: rollouts, credit and update on the same episodes and sampled tokens.

    python benchmarks/train.py [--only history-10 window ...] [--variants] [--rounds 2] [--size small] [--out train.json]
    python benchmarks/train.py --gpu

Each comparison runs its two arms alternately (A B B A ...), each time in a fresh process with as many threads, and prints
a table. Weights are random, replies have planned lengths and episodes planned turns (`train_env.py`); the arms that are
modes of our own code are in `train_arms.py`, TRL's is in `train_trl.py`. Before anything is timed, both arms' summed
gradients of the first update are compared on the same episodes. `--variants` adds single runs with one thing changed.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SHARES = ("rollout", "forward", "backward", "env", "waiting")


@dataclass(frozen=True)
class Comparison:
    """Two arms of a setting, how much faster ours shall be, and what else is worth a single run."""

    setting: dict[str, Any]
    against: str
    target: float
    variants: tuple[str, ...] = ()
    title: str = ""


MIXED = (5, 7, 9, 11, 13, 15, 30, 30, 30)  # turns: two thirds of the episodes end early, the rest at the horizon
COMPARISONS = {
    "history-10": Comparison(
        {"lengths": (10,), "tasks": 4, "group": 8},
        "padded",
        3,
        ("packed, lockstep", "packed, library's forward pass", "packed, a row per turn", "padded, 32 rows"),
        "Full history, 10 turns: a padded row per turn, lockstep",
    ),
    "history-30": Comparison(
        {"lengths": (30,), "tasks": 1, "group": 8},
        "padded",
        6,
        ("packed, library's forward pass", "packed, a row per turn"),
        "Full history, 30 turns: a padded row per turn, lockstep",
    ),
    "window": Comparison(
        {"agent": "window", "lengths": MIXED, "tasks": 2, "group": 8},
        "padded, finished, old",
        2,
        ("packed, library's forward pass", "padded", "padded, finished", "padded, finished, old, 32 rows"),
        "Window of 2 in both arms, 5 to 30 turns: verl-agent's step, padded and in lockstep",
    ),
    "trl": Comparison(
        {"lengths": (10,), "tasks": 4, "group": 8, "reply": 24, "credit": "grpo"},
        "TRL GRPOTrainer",
        3,
        (),
        "Full history, 10 turns, 24 tokens a reply: TRL's GRPOTrainer, its own loop of turns",
    ),
}


def worker(name: str, arm: str, folder: Path, scale: int, threads: int) -> dict[str, Any]:
    """Run one arm once, in this process."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    from train_arms import ARMS, Setting, measure

    setting = Setting(**COMPARISONS[name].setting)
    setting = replace(setting, tasks=scale * setting.tasks)
    if arm == "TRL GRPOTrainer":
        import train_trl

        with tempfile.TemporaryDirectory() as scratch:
            return train_trl.measure(folder, setting, Path(scratch))
    return measure(folder, setting, ARMS[arm])


def run_arm(name: str, arm: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one arm once, in a process of its own."""
    threads = str(options.threads)
    words = [sys.executable, __file__, "--worker", name, arm, str(folder)]
    words += ["--threads", threads, "--scale", str(options.scale)]
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}, {arm}: code {done.returncode}\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}, {arm}: {found['seconds']:.1f} s, {found['cpu_seconds']:.1f} s of CPU", file=sys.stderr, flush=True)
    return found


def gradient_gap(name: str, folder: Path) -> float:
    """Return how far the arms' summed gradients of the first update are apart, over the norm, on the same episodes."""
    from train_arms import ARMS, Setting, first_gradient, run_of

    comparison = COMPARISONS[name]
    setting = Setting(**{**comparison.setting, "tasks": 1, "group": 2})
    episodes = asyncio.run(run_of(folder, setting, ARMS["packed"]).play(1))
    ours, theirs = (first_gradient(folder, episodes, setting, ARMS[arm]) for arm in ("packed", comparison.against))
    return float((ours - theirs).norm() / theirs.norm())


def compare(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run both arms of a comparison in turn, `options.rounds` times each, and the variants once."""
    comparison = COMPARISONS[name]
    result: dict[str, Any] = {"comparison": name, "arms": {}, "variants": {}}
    if comparison.against != "TRL GRPOTrainer":
        result["gradient_gap"] = gradient_gap(name, folder)
        if result["gradient_gap"] > 1e-4:
            sys.exit(f"{name}: the arms' gradients are {result['gradient_gap']:.1e} of their norm apart; expected 1e-4")
    pair = ("packed", comparison.against)
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in pair}
    for round in range(options.rounds):
        for arm in pair if round % 2 == 0 else pair[::-1]:
            runs[arm].append(run_arm(name, arm, folder, options))
    sampled = [run["sampled"] for arm in pair for run in runs[arm]]
    if len(set(sampled)) > 1:
        sys.exit(f"{name}: the arms sampled {sampled} tokens; expected equally many")
    rows = [run["row_tokens"] for arm in pair for run in runs[arm]]
    if max(rows) > 1.02 * min(rows):  # a reply may by chance end with the end token that is else put behind it
        sys.exit(f"{name}: merged rows hold {rows} tokens in the arms; expected about equally many")
    for measure in ("episodes_per_second", "episodes_per_cpu_second"):
        ratios = [ours[measure] / theirs[measure] for ours, theirs in zip(*runs.values(), strict=True)]
        result["ratio" if measure == "episodes_per_second" else "cpu_ratio"] = ratios
    result["arms"] = {arm: middle(runs[arm]) for arm in pair}
    if options.variants:
        result["variants"] = {arm: run_arm(name, arm, folder, options) for arm in comparison.variants}
    return result


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of several runs' measures."""
    found: dict[str, Any] = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "shares"}
    return found | {"shares": {name: statistics.median(run["shares"][name] for run in runs) for name in SHARES}}


def table(result: dict[str, Any]) -> str:
    """Return a comparison as Markdown."""
    comparison = COMPARISONS[result["comparison"]]
    ratio, cpu = statistics.median(result["ratio"]), statistics.median(result["cpu_ratio"])
    gap = f" Gradients differ by {result['gradient_gap']:.0e} of their norm." if "gradient_gap" in result else ""
    spread = f"({min(result['ratio']):.2f} to {max(result['ratio']):.2f})"
    cpu_spread = f"({min(result['cpu_ratio']):.2f} to {max(result['cpu_ratio']):.2f})"
    heads = (
        "arm",
        "episodes/s",
        "a CPU second",
        "sampled tokens/s",
        "trained of processed",
        *SHARES,
        "peak MB",
        "rows a step",
    )
    lines = [
        f"**{comparison.title}**: ours is {ratio:.2f} times as fast {spread}; by CPU time {cpu:.2f} {cpu_spread}; "
        f"target {comparison.target:g}.{gap}",
        "",
        "| " + " | ".join(heads) + " |",
        "|---" * len(heads) + "|",
    ]
    for arm, run in {**result["arms"], **result["variants"]}.items():
        cells = [arm, f"{run['episodes_per_second']:.2f}", f"{run['episodes_per_cpu_second']:.2f}"]
        cells += [f"{run['tokens_per_second']:.0f}", f"{run['trained_over_processed']:.1%}"]
        cells += [f"{run['shares'][share]:.0%}" for share in SHARES]
        lines.append("| " + " | ".join([*cells, f"{run['peak_mb']:.0f}", f"{run['rows_per_engine_step']:.1f}"]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--rounds", type=int, default=2, help="runs of each arm")
    parser.add_argument("--variants", action="store_true", help="also run each comparison's variants, once each")
    parser.add_argument("--scale", type=int, default=1, help="multiplies the tasks of a step")
    parser.add_argument("--size", default="small", help="shape of the policy: tiny, small or medium")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--gpu", action="store_true", help="the measurements that need CUDA and vLLM, and nothing else")
    parser.add_argument("--out", type=Path, default=None, help="where to write the results as JSON")
    parser.add_argument("--worker", nargs=3, metavar=("COMPARISON", "ARM", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, arm, folder = options.worker
        print(json.dumps(worker(name, arm, Path(folder), options.scale, options.threads)))
        return
    if options.gpu:
        import train_gpu

        train_gpu.main(options.out)
        return
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before torch is imported
    import train_env

    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = train_env.make_policy(Path(scratch) / "policy", options.size)
        for name in options.only:
            results.append(compare(name, folder, options))
            print(table(results[-1]), flush=True)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("GPU: not run; `--gpu` measures on a machine with CUDA and vLLM.")


if __name__ == "__main__":
    main()
