"""What induction heads in the first weights are worth in a warm start: the same demonstrations, with and without them.

    python benchmarks/induction.py --out runs/induction [--seeds 0-2] [--only search]    resumes where it stopped

A policy from nothing imitates the expert in one environment; the mean loss of the last quarter of the warm start and the
success on unseen tasks are compared, seed by seed. One process of one thread.
"""

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from credit import append, lines, seeds


@dataclass(frozen=True)
class Setting:
    """An environment, the policy that is made for it, and how many demonstrations it sees."""

    env: str
    options: dict[str, Any]
    episodes: int
    changes: dict[str, Any] = field(default_factory=dict[str, Any])


WORDS = {"vocabulary": 2000, "pre_tokenizer": "words", "policy_width": 192, "turn_tokens": 32, "temperature": 1.2}
SETTINGS = {
    "household": Setting(
        "rlvr/Household-v0",
        {"preset": "tiny", "search": "listed"},
        4800,
        {"turn_tokens": 16, "temperature": 1.3, "test_split": "valid_unseen"},
    ),
    "textcraft": Setting("rlvr/TextCraft-v0", {"difficulty": 0, "horizon": 12}, 4800, WORDS),
    "search": Setting("rlvr/Search-v0", {"difficulty": 0, "hops": 1, "top_k": 2, "passage": 120, "horizon": 5}, 4800, WORDS),
}


def measured(name: str, heads: bool, seed: int, out: Path) -> dict[str, Any]:
    """Run a warm start and return its row."""
    from agentgym.trainers import TrainConfig, train

    setting, folder = SETTINGS[name], out / f"{name}-{'heads' if heads else 'random'}-{seed}"
    summary = train(
        TrainConfig(
            env=setting.env, env_options=setting.options, out=str(folder), seed=seed, threads=1, prompt="bare",
            policy_induction_heads=heads, sft_episodes=setting.episodes, sft_batch=16, sft_lr=8e-3, sft_noise=0.14,
            sft_invalid=0.05, steps=0, eval_every=0, test_tasks=200, **setting.changes,
        )
    )  # fmt: skip
    losses = [row["nll"] for row in lines(folder / "metrics.jsonl") if row["phase"] == "sft"]
    return {
        "setting": name, "heads": heads, "seed": seed, "demonstrations": setting.episodes,
        "nll": round(mean(losses[-len(losses) // 4 :]), 4), "success": summary["success_after"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/induction"))
    parser.add_argument("--seeds", type=seeds, default=[0])
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = options.out / "rows.jsonl"
    done = {(row["setting"], row["heads"], row["seed"]) for row in lines(rows)}
    for seed in options.seeds:
        for name in options.only:
            for heads in (False, True):
                if (name, heads, seed) not in done:
                    row = measured(name, heads, seed, options.out)
                    append(rows, row)
                    print(f"{name}, seed {seed}, {'heads' if heads else 'random'}: {row['nll']:.3f}, {row['success']:.1%}")


if __name__ == "__main__":
    main()
