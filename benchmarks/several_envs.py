"""One policy in six environments: a joint run against a run in each, and what each run does for the other environments.

python benchmarks/several_envs.py --out runs/several                          run what is missing; resumes where it stopped
python benchmarks/several_envs.py --out runs/several --report results/several    the tables and the picture of what is there
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import agentgym
from agentgym.trainers.config.recipe_files import read_recipe, to_toml
from agentgym.trainers.config.train_config import TrainConfig

sys.path.append(str(Path(__file__).parent))

from credit import append, lines, seeds

RECIPE = str(Path(__file__).with_suffix(".toml"))
WARM, JOINT = "warm", "all"
LADDER = "textcraft"
"""The environment in which a difficulty that moves is compared with a fixed one."""
LEVELS = (0, 1, 2)
"""Difficulties that those runs are measured at."""


@dataclass(frozen=True)
class Arm:
    """A run of reinforcement learning from a warm start that others of the same seed share."""

    envs: tuple[str, ...]
    share: float
    """Of the recipe's steps."""
    changes: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of its environments that differ from the recipe's."""


def arms() -> dict[str, Arm]:
    """Return the arms: all environments, each alone, and `LADDER` alone at higher difficulties."""
    config = read_recipe(RECIPE)
    weights = {env.name: env.weight for env in config.mix}
    alone = {name: Arm((name,), weight / sum(weights.values())) for name, weight in weights.items()}
    window = {
        "sampler": "window",
        "sampler_options": {"groups": 24, "low": 0.15, "high": 0.5, "start": LEVELS[0], "most": LEVELS[-1]},
    }
    return {
        JOINT: Arm(tuple(weights), 1.0),
        **alone,
        f"{LADDER}-{LEVELS[1]}": replace(alone[LADDER], options={"difficulty": LEVELS[1]}),
        f"{LADDER}-window": replace(alone[LADDER], changes=window),
    }


def recipe(seed: int) -> TrainConfig:
    """Return the recipe without evaluations of its own; tests of a policy are made by `measured`."""
    return replace(read_recipe(RECIPE), seed=seed, eval_every=0, test_tasks=0, checkpoint_every=1000, keep_episodes=1 << 30)


def config_of(name: str, seed: int, out: Path) -> TrainConfig:
    """Return the configuration of the warm start or of an arm."""
    base = replace(recipe(seed), out=str(out / f"{name}-{seed}"))
    if name == WARM:
        return replace(base, steps=0)
    arm = arms()[name]
    envs = tuple(replace(env, options=env.options | arm.options) for env in base.envs if env.name in arm.envs)
    policy = newest(out / f"{WARM}-{seed}")
    return replace(base, envs=envs, model=str(policy), sft_episodes=0, steps=round(base.steps * arm.share), **arm.changes)


def newest(folder: Path) -> Path:
    """Return a run's newest checkpoint."""
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def run(config: TrainConfig) -> Path:
    """Run a configuration as a user does, from its checkpoint where there is one, and return the folder."""
    folder = Path(config.out)
    if not (folder / "summary.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        file = folder.with_suffix(".toml")
        file.write_text(to_toml(config))
        begun = any((folder / "checkpoints").glob("step-*"))
        arguments = ["--resume", str(folder)] if begun else [str(file)]
        ended = subprocess.Popen([sys.executable, "-m", "agentgym", "train", *arguments])
        try:
            if ended.wait():
                raise SystemExit(f"the run in {folder} ended with {ended.returncode}")
        except KeyboardInterrupt:
            ended.send_signal(signal.SIGINT)
            ended.wait()
            raise
    return folder


def measured(policy: Path, tasks: int, only: str = "") -> dict[str, str]:
    """Play tasks of every environment's test split, or of one environment's, once at temperature 1.

    Return by environment a digit for each task, in the split's order: 1 for a success, 0 for none, - for a fault.
    """
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    config = recipe(0)
    engine, found = HFEngine(str(policy), slots=128), dict[str, str]()
    for env in (env for env in config.mix if not only or env.name == only):
        spec = replace(config, **env.agent).spec
        agent = spec.make(engine, Sampling(temperature=1.0), engine.tokenizer)
        ladder = [({"difficulty": level}, f" {level}") for level in LEVELS] if env.name == LADDER else [({}, "")]
        for changes, suffix in ladder:
            options = {**env.options, **changes}
            episodes = agentgym.collect(agent, env.id, env_options=options, split=env.test_split or "test", tasks=tasks)
            digits = ("-" if episode.fault else str(int(episode.success is True)) for episode in episodes)
            found[env.name + suffix] = "".join(digits)
    engine.close()
    return found


def sampled(folder: Path, only: str) -> dict[str, int]:
    """Return the tokens sampled in training by environment; `only` is the one of a run that has no others."""
    tokens: Counter[str] = Counter()
    for episode in agentgym.read_episodes(folder / "episodes.jsonl"):
        tokens[episode.labels.get("env", only)] += episode.sampled
    return dict(tokens)


def row_of(name: str, seed: int, out: Path, tasks: int) -> dict[str, Any]:
    """Run the warm start or an arm and return its row."""
    started, config = time.time(), config_of(name, seed, out)
    only = LADDER if name.startswith(f"{LADDER}-") else ""
    folder = run(config)
    curve = [row["success_train"] for row in lines(folder / "metrics.jsonl") if row["phase"] == "rl"]
    trained = round(time.time() - started, 1)
    return {
        "run": name, "seed": seed, "steps": config.steps, "success": measured(newest(folder), tasks, only),
        "tokens": sampled(folder, config.mix[0].name), "train": curve, "seconds": trained,
        "total": round(time.time() - started, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/several"))
    parser.add_argument("--seeds", type=seeds, default=[0])
    parser.add_argument("--runs", nargs="+", default=list(arms()), choices=arms())
    parser.add_argument("--tasks", type=int, default=200, help="tasks of each environment that a policy is measured on")
    parser.add_argument("--report", type=Path, metavar="PAGE", help="PAGE.md and PAGE.svg")
    options = parser.parse_args()
    rows = options.out / "rows.jsonl"
    if options.report:
        from several_envs_report import write

        write(lines(rows), options.report)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    done = {(row["run"], row["seed"]) for row in lines(rows)}
    for seed in options.seeds:
        for name in (WARM, *options.runs):
            if (name, seed) not in done:
                row = row_of(name, seed, options.out, options.tasks)
                append(rows, row)
                shares = {env: f"{digits.count('1') / len(digits):.3f}" for env, digits in row["success"].items()}
                print(f"{name}, seed {seed}: {shares} ({row['total']:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
