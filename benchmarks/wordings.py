"""Success in words that no demonstration has: warm starts in Household `tiny` with other wordings and other tokens.

python benchmarks/wordings.py now invented --out runs/wordings      train and test what is missing; resumes where it stopped
python benchmarks/wordings.py --out runs/wordings --report                           print the tables of what is there

Each arm is an SFT warm start from nothing, one process of one thread. Every test plays the same houses of `valid_unseen`.
`held_out:PHRASE` replaces one phrase of the answers alone by its held-out paraphrases, and `other` has paraphrases that
neither the package nor any demonstration has.
"""

import argparse
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from seed_rows import append, half_width, lines

import agentgym
from agentgym.core.env import Task
from agentgym.core.seeding import derive
from agentgym.envs.household import env as houses
from agentgym.envs.household.game import Game
from agentgym.envs.household.wordings import draw_dialect
from agentgym.registry import register
from agentgym.trainers.config.train_config import TrainConfig

FOUR = ("new", "old", "variants", "paraphrased")
RECIPE = ("new",) * 6 + ("old",) * 6
"""What `full` contributes to sixteen demonstrations of the recipe `household-full`, about."""
ARMS: dict[str, dict[str, Any]] = {
    "now": {"wordings": FOUR},
    "words": {"wordings": FOUR, "pre_tokenizer": "words"},
    "invented": {"wordings": (*FOUR, "invented")},
    "invented, words": {"wordings": (*FOUR, "invented"), "pre_tokenizer": "words"},
    "recipe": {"wordings": RECIPE + FOUR},
    "recipe, invented": {"wordings": (*RECIPE, "variants", "paraphrased", "invented", "invented")},
}
"""Wordings of the demonstrations, and changes to the configuration."""
COMMON: dict[str, Any] = {
    "processes": 1, "threads": 1, "policy_layers": 2, "policy_induction_heads": True, "prompt": "bare", "turn_tokens": 16,
    "steps": 0, "eval_every": 0, "test_tasks": 0, "sft_episodes": 9600, "sft_batch": 16, "sft_lr": 8e-3, "sft_noise": 0.06,
    "sft_invalid": 0.02, "sft_forget": 0.02, "sft_masked": ("random", "invalid", "forget"), "train_split": "train",
    "valid_split": "valid_seen", "test_split": "valid_unseen",
}  # fmt: skip
OTHER = (
    (
        "You are in the middle of a room. Looking quickly around you",
        ("This place is furnished", "Here is where you wake up"),
    ),
    ("You arrive at ", ("Now standing before ", "Ahead lies ")),
    ("You pick up the ", ("Your hands receive the ", "Collected: the ")),
    ("You open the ", ("Access is granted to the ", "Gently unseal the ")),
    ("You close the ", ("Sealed is the ",)),
    ("You turn on the ", ("Light comes from the ",)),
    (" is closed.", (" hides its contents.", " remains sealed for now.")),
    (", you see ", (", resting quietly: ", ", contents include ")),
    (" using the ", (" thanks to the ", " by means of the ")),
)
"""Engine text -> paraphrases that exist only here."""


class Household(houses.Household):
    """Household with one phrase in its held-out paraphrase, or with the paraphrases of `OTHER`.

    The class has the name of its base, because the name is part of the seed of a generated house.
    """

    settings: ClassVar[tuple[str, ...]] = (*houses.Household.settings, "phrase")
    phrase: str = ""
    """The engine's phrase to replace; empty means all, by `OTHER`."""

    def make_game(self, task: Task) -> Game:
        dialect = draw_dialect(("new",), task.id)
        if self.phrase:
            held_out = dict(draw_dialect(("held_out",), task.id).phrases)
            phrases = ((self.phrase, held_out[self.phrase]),)
        else:
            phrases = tuple((genuine, texts[derive("other", genuine, task.id) % len(texts)]) for genuine, texts in OTHER)
        return houses.generated_game(task, replace(dialect, phrases=phrases))


register("rewordings/Reworded-v0", Household)
TESTS = ("new", "old", "variants", "paraphrased", "held_out", "other")
PARTS = tuple(f"held_out:{genuine}" for genuine, _ in OTHER)


def config_of(arm: str, seed: int, out: Path) -> TrainConfig:
    """Return the configuration of an arm's warm start."""
    changes = dict(ARMS[arm])
    options = {"preset": "tiny", "wordings": list(changes.pop("wordings"))}
    folder = out / f"{arm.replace(', ', '-')}-{seed}"
    return TrainConfig(
        env="rlvr/Household-v0", env_options=options, out=str(folder), seed=seed, **{**COMMON, **changes}
    )  # fmt: skip


def trained(config: TrainConfig) -> dict[str, Any]:
    """Train the warm start if it is missing; return its CPU seconds and the mean loss of its last quarter."""
    from agentgym.trainers import train

    folder = Path(config.out)
    done = folder / "warm.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        start = time.process_time()
        train(config)
        rows = lines(folder / "metrics.jsonl")
        losses = [row["nll"] for row in rows if row["phase"] == "sft"]
        warm = {"cpu": round(time.process_time() - start), "nll": round(float(np.mean(losses[-len(losses) // 4 :])), 4)}
        done.write_text(json.dumps(warm))
    return json.loads(done.read_text())


def agent_of(config: TrainConfig) -> Any:
    """Return the agent of a warm start, at the temperature of the recipe's own test."""
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    engine = HFEngine(str(sorted((Path(config.out) / "checkpoints").glob("step-*"))[-1]), slots=64)
    return config.spec.make(engine, Sampling(temperature=0.4), engine.tokenizer)


def won(agent: Any, test: str, tasks: int) -> str:
    """Return `1` or `0` for each of the first houses of `valid_unseen`: does the agent win it in the words of a test?"""
    env, options = "rlvr/Household-v0", {"preset": "tiny", "wordings": [test]}
    if test == "other" or ":" in test:
        env, options = "rewordings/Reworded-v0", {"preset": "tiny", "phrase": test.partition(":")[2]}
    episodes = agentgym.collect(agent, env, env_options=options, split="valid_unseen", tasks=tasks)
    wins = {episode.task_id: episode.success is True for episode in episodes}
    return "".join("01"[wins[task]] for task in sorted(wins))


def cost(rows: list[dict[str, Any]], test: str) -> tuple[float, float]:
    """Return the points that a test costs against `new`, and half its 95 % interval: over seeds, or of one over houses."""
    houses = {(row["seed"], row["test"]): np.array(list(row["won"]), float) for row in rows}
    losses = [houses[seed, "new"] - houses[seed, test] for seed in sorted({seed for seed, _ in houses})]
    if len(losses) == 1:
        return 100 * losses[0].mean(), 196 * losses[0].std(ddof=1) / len(losses[0]) ** 0.5
    means = 100 * np.array([loss.mean() for loss in losses])
    return means.mean(), half_width(means)


def report(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of success by arm and test, seeds side by side, and of the costs against `new`."""
    lines = [
        f"| demonstrations | {' | '.join(f'`{test}`' for test in TESTS)} | cost of `held_out` | cost of `other` | CPU s |",
        "|---" * (len(TESTS) + 4) + "|",
    ]
    for arm in ARMS:
        mine = sorted((row for row in rows if row["arm"] == arm and row["test"] in TESTS), key=lambda row: row["seed"])
        if not mine:
            continue
        columns = [
            ", ".join(f"{100 * row['won'].count('1') / len(row['won']):.1f}" for row in mine if row["test"] == test)
            for test in TESTS
        ]
        costs = [
            f"{mean:.1f} ({mean - half:+.1f} to {mean + half:+.1f})" for mean, half in (cost(mine, t) for t in TESTS[4:])
        ]
        cpu = ", ".join(str(row["cpu"]) for row in mine if row["test"] == "new")
        lines.append(f"| {arm} | {' | '.join(columns)} | {' | '.join(costs)} | {cpu} |")
    lines += ["", "| one phrase held out | arm, seed | cost |", "|---|---|---|"]
    for row in rows:
        if row["test"] in PARTS:
            new = [
                each for each in rows if each["test"] == "new" and (each["arm"], each["seed"]) == (row["arm"], row["seed"])
            ]
            mean, half = cost([*new, row], row["test"])
            phrase = row["test"].partition(":")[2].strip()
            lines.append(
                f"| `{phrase}` | {row['arm']}, {row['seed']} | {mean:.1f} ({mean - half:+.1f} to {mean + half:+.1f}) |"
            )
    return lines


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("arms", nargs="*", choices=[[], *ARMS], default=[])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--tests", nargs="*", default=list(TESTS))
    parser.add_argument("--parts", action="store_true", help="also test each phrase alone")
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path("runs/wordings"))
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    path = args.out / "rows.jsonl"
    args.out.mkdir(parents=True, exist_ok=True)
    tests = [*args.tests, *(PARTS if args.parts else ())]
    for seed in args.seeds:
        for arm in args.arms:
            known = {row["test"] for row in lines(path) if (row["arm"], row["seed"]) == (arm, seed)}
            if known.issuperset(tests):
                continue
            config = config_of(arm, seed, args.out)
            warm = trained(config)
            agent = agent_of(config)
            for test in tests:
                if test not in known:
                    start = time.process_time()
                    row = {"arm": arm, "seed": seed, "test": test, "won": won(agent, test, args.tasks), **warm}
                    append(path, row)
                    row["won"] = row["won"].count("1") / len(row["won"])
                    print(row, round(time.process_time() - start), flush=True)
    if args.report:
        print("\n".join(report(lines(path))))


if __name__ == "__main__":
    main()
