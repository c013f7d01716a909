"""Credit algorithms compared where credit matters: paired seeds from one SFT warm start, sampled tokens counted.

python benchmarks/credit.py --out runs/credit --seeds 0-7                  train what is missing; resumes where it stopped
python benchmarks/credit.py --out runs/credit --efficiency                 how much of Q - V each credit carries
python benchmarks/credit.py --out runs/credit --report results/credit_bench   tables, plot and rows of what is there

Runs that have a row in `--earlier` are not trained again where their warm start is the same to the last digit.
"""

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import agentgym
from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.config.train_config import TrainConfig

sys.path.append(str(Path(__file__).parent))

from credit_settings import ARMS, SETTINGS, Setting
from seed_rows import append, lines

OVERLAP = ("versions_behind", "versions_behind_most", "mismatch_ess", "mismatch_kl", "correction")
"""Metrics of a step whose means over a run are kept in its row: what overlap does to the tokens that are trained on."""
TUNING = 100
"""Seeds from here on choose penalties and learning rates, and are in no comparison."""


@dataclass(frozen=True)
class Cell:
    """One run."""

    setting: str
    arm: str
    penalty: float
    lr: float
    seed: int
    level: int = 0
    """Its `async_level`; benchmarks/overlap.py asks for more than 0."""

    @property
    def name(self) -> str:
        """What its folder is called."""
        return f"{self.setting}-{self.arm}-{self.penalty:g}-{self.lr:g}-{self.seed}" + f"-k{self.level}" * (self.level > 0)


def digest(policy: Path) -> str:
    """Return what tells two warm starts apart: runs are paired only where they began from the same weights."""
    path = policy / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""


def base(setting: Setting) -> TrainConfig:
    """Return what the warm start and all runs of a setting share."""
    plain = {
        "processes": 1, "threads": 1, "eval_every": 0, "test_tasks": 0, "checkpoint_every": 1000, "credit_options": {},
    }  # fmt: skip
    return replace(read_recipe(setting.recipe), **{**plain, **setting.warm})


def trained(config: TrainConfig) -> Path:
    """Run a configuration, from its checkpoint where there is one, and return the newest checkpoint."""
    from agentgym.trainers import resume, train

    folder = Path(config.out)
    if not (folder / "summary.json").exists():
        if any((folder / "checkpoints").glob("step-*")):
            resume(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            train(config)
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def warm_start(out: Path, name: str) -> Path:
    """Return the SFT warm start of a setting, made where there is none; settings that start alike have one."""
    mine = SETTINGS[name]
    first = next(one for one, other in SETTINGS.items() if (other.recipe, other.warm) == (mine.recipe, mine.warm))
    return trained(replace(base(mine), out=str(out / f"{first}-warm"), seed=0, steps=0))


def warm_success(out: Path, name: str) -> float:
    """Return the success of a setting's warm start on the tasks that its runs end with."""
    path = out / "warm.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    if name not in known:
        known[name] = success(base(SETTINGS[name]), warm_start(out, name), SETTINGS[name])
        path.write_text(json.dumps(known))
    return known[name]


def success(config: TrainConfig, policy: Path, setting: Setting) -> float:
    """Play the setting's tasks and return the share of episodes that succeeded."""
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    engine = HFEngine(str(policy), slots=128)
    agent = config.spec.make(engine, Sampling(temperature=1.0), engine.tokenizer)
    episodes = agentgym.collect(
        agent,
        config.env,
        env_options=config.env_options,
        split=setting.split,
        tasks=setting.tasks,
        attempts=setting.attempts,
    )
    return float(np.mean([episode.success is True for episode in episodes]))


def config_of(cell: Cell, out: Path, policy: Path) -> TrainConfig:
    """Return the configuration of a run."""
    setting, arm = SETTINGS[cell.setting], ARMS[cell.arm]
    changes = dict(setting.rl)
    options = {**arm.options, **({"penalty": cell.penalty} if cell.penalty else {})}
    if arm.branching:
        changes |= {"branching": "turns", "branching_options": arm.branching}
    return replace(
        base(setting), sft_episodes=0, out=str(out / cell.name), seed=cell.seed, model=str(policy), lr=cell.lr,
        credit=arm.credit, credit_options=options, needs_options=arm.needs, keep_episodes=1 << 30,
        async_level=cell.level, **changes,
    )  # fmt: skip


def train_cell(cell: Cell, out: Path, policy: Path) -> dict[str, Any]:
    """Train and test one cell and return its row; of its folder only metrics are kept."""
    started, computed, setting = time.time(), time.process_time(), SETTINGS[cell.setting]
    config = config_of(cell, out, policy)
    rate = success(config, trained(config), setting)
    folder = Path(config.out)
    rl = [row for row in lines(folder / "metrics.jsonl") if row["phase"] == "rl"]
    by_step = tokens_by_step(rl, agentgym.read_episodes(folder / "episodes.jsonl"))
    branches = sum(continued(row) for row in rl)
    overlap = {name: float(np.mean([row[name] for row in rl])) for name in OVERLAP if all(name in row for row in rl)}
    for part in ("checkpoints", "episodes.jsonl"):
        path = folder / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {
        **vars(cell), "success": rate, "tasks": setting.tasks, "steps": len(rl), "tokens": sum(by_step),
        "branch_tokens": branches, "entropy": rl[-1].get("entropy"), "train": [row["success_train"] for row in rl],
        "tokens_by_step": by_step, "warm": digest(policy), "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.time() - started, 1), "cpu": round(time.process_time() - computed, 1), **overlap,
    }  # fmt: skip


def continued(row: dict[str, Any]) -> float:
    """Return how many tokens a step sampled in continuations of needs, which are not trained."""
    return row.get("branch_tokens", 0) + row.get("prover_tokens", 0)


def tokens_by_step(rl: Sequence[dict[str, Any]], episodes: Iterable[Any]) -> list[int]:
    """Return how many tokens each step sampled: a turn that several episodes share once, continuations of needs too."""
    tokens = {row["step"]: int(continued(row)) for row in rl}
    for episode in episodes:
        tokens[int(episode.group_id.split("/")[0])] += episode.sampled
    return list(tokens.values())


def done(rows: Iterable[dict[str, Any]], warm: str | None = None) -> set[Cell]:
    """Return the cells that rows are of; with `warm`, of runs that began from these weights."""
    names = [part.name for part in fields(Cell)]
    return {
        Cell(**{name: row[name] for name in names if name in row}) for row in rows if warm is None or row.get("warm") == warm
    }


def train_all(cells: Sequence[Cell], out: Path, until: float, stored: Path | None = None) -> None:
    """Train the cells that have no row yet, one after another, and start none after `until`.

    stored: rows of earlier sessions, perhaps on other machines; they stand for runs from the same warm start.
    """
    earlier, trained_here = lines(stored) if stored else [], done(lines(out / "train.jsonl"))
    todo = [cell for cell in cells if cell not in trained_here]
    for number, cell in enumerate(todo, 1):
        if time.time() > until:
            print(f"time is up: {len(todo) - number + 1} cells are left", flush=True)
            return
        policy = warm_start(out, cell.setting)
        if cell in done(earlier, digest(policy)):
            continue
        row = train_cell(cell, out, policy)
        append(out / "train.jsonl", row)
        print(f"{number}/{len(todo)} {cell.name}: {row['success']:.3f} ({row['seconds']:.0f} s)", flush=True)


def seeds(text: str) -> list[int]:
    """Return the seeds of `0-3,100`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def variants(options: argparse.Namespace, setting: str) -> list[tuple[str, float, float]]:
    """Return the arms that are asked for, each with its penalties and learning rates."""
    if options.tuned:
        return [tuned(options.out, setting, arm) for arm in options.arms]
    return [(arm, penalty, lr) for penalty in options.penalties for lr in options.lrs for arm in options.arms]


def tuned(out: Path, setting: str, arm: str) -> tuple[str, float, float]:
    """Return an arm with the penalty and the learning rate that its tuning seeds chose."""
    from credit_report import best

    found = best(lines(out / "train.jsonl"), setting, arm, range(TUNING, 1 << 30))
    if found is None:
        raise SystemExit(f"{arm} has no run of a seed from {TUNING} on in {out}: run such seeds first, or leave out --tuned")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/credit"))
    parser.add_argument("--settings", nargs="+", default=["household"], choices=SETTINGS)
    parser.add_argument("--arms", nargs="+", default=["grpo", "gigpo", "state_td"], choices=ARMS)
    parser.add_argument("--penalties", nargs="+", type=float, default=[0.0])
    parser.add_argument("--lrs", nargs="+", type=float, default=[1e-3])
    parser.add_argument("--tuned", action="store_true", help="each arm at the penalty and rate its tuning seeds chose")
    parser.add_argument("--seeds", type=seeds, default=seeds("0-7"))
    parser.add_argument("--earlier", type=Path, default=Path("results/credit_bench.jsonl"), help="rows of earlier sessions")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so many")
    parser.add_argument("--efficiency", action="store_true")
    parser.add_argument("--turns", type=int, default=400, help="of the efficiency")
    parser.add_argument("--k", type=int, default=16, help="continuations before and after each of them")
    parser.add_argument("--report", type=Path, metavar="PAGE", help="PAGE.md and PAGE.svg; adds rows of --out to --earlier")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    until = time.time() + 60 * options.minutes
    if options.report:
        from credit_report import write

        write(options.out, options.report, options.earlier)
    elif options.efficiency:
        from credit_efficiency import measure

        for name in options.settings:
            measure(options.out, name, options.turns, options.k, until)
    else:
        cells = [
            Cell(setting, arm, penalty, lr, seed)
            for setting in options.settings
            for seed in options.seeds
            for arm, penalty, lr in variants(options, setting)
        ]
        train_all(cells, options.out, until, options.earlier)


if __name__ == "__main__":
    main()
