"""Self-play from a warm start: does a policy that proposes its own tasks, or plays itself, get better at solving?

python benchmarks/self_play.py ssp azr kuhn --out runs/self-play      train what is missing; resumes where it stopped
python benchmarks/self_play.py ssp azr --own --out runs/self-play     the same steps on the environment's own tasks alone
python benchmarks/self_play.py --out runs/self-play --report                        print the table of what is there

`ssp` is Search Self-play over corpora of 12 people, `azr` Absolute Zero over programs of one line, `kuhn` SPIRAL's game of
Kuhn poker with `mars`. Each seed has a warm start of its own by imitation, and one run from there. Success before and after
is on the same tasks of `test`, none of which is trained (`ssp`: other corpora); Kuhn poker has exact exploitability instead.
Policies have below 0.6 million parameters.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from seed_rows import agent_of, append, half_width, lines, trained

sys.path.append(str(Path(__file__).parent))

from self_play_envs import hands_won

import agentgym
from agentgym.envs.duels.kuhn_rules import exploitability, value
from agentgym.evaluate.exploiting import exploitabilities
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig

COMMON: dict[str, Any] = {
    "processes": 1, "threads": 1, "pre_tokenizer": "names", "policy_induction_heads": True, "prompt": "bare",
    "eval_every": 0, "test_tasks": 0, "checkpoint_every": 10, "sft_batch": 16, "sft_lr": 8e-3, "sft_noise": 0.0,
    "sft_invalid": 0.0, "sft_forget": 0.0, "lr": 1e-3, "min_lr_ratio": 0.25, "negative_advantage_weight": 0.5,
    "select": "keep", "credit_options": {},
}  # fmt: skip


@dataclass(frozen=True)
class Game:
    """A warm start, the self-play from it, and the tasks that both are tested on."""

    envs: tuple[tuple[str, float], ...]
    """Environments of the warm start with their weights; the solver is the last one."""
    playing: tuple[str, ...]
    """Those of self-play."""
    options: dict[str, Any]
    warm: dict[str, Any]
    rl: dict[str, Any]
    tasks: int = 100
    attempts: int = 4
    shared: dict[str, Any] = field(default_factory=dict[str, Any])


GAMES = {
    "ssp": Game(
        (("facts/FactsProposer-v0", 1.0), ("facts/FactsReader-v0", 1.0), ("facts/Facts-v0", 2.0)),
        ("facts/FactsProposer-v0", "facts/Facts-v0"),
        {"top_k": 2, "passage": 200},
        {"sft_episodes": 4000, "sft_noise": 0.35},
        {"sampler": "search_self_play", "sampler_options": {"proposers": 2, "attempts": 4, "invalid": -0.5},
         "credit": "task_relative", "negative_advantage_weight": 1.0, "muon": True, "lr": 5e-4, "steps": 30,
         "tasks_per_step": 18, "group_size": 8},
        shared={"turn_tokens": 32, "horizon": (4,), "vocabulary": 900, "policy_episodes": 300},
    ),
    "azr": Game(
        (("lines/LinesProposer-v0", 1.0), ("lines/Lines-v0", 7.0)),
        ("lines/LinesProposer-v0", "lines/Lines-v0"),
        {"types": ["deduction"]},
        {"sft_episodes": 4000, "sft_noise": 0.35},
        {"sampler": "absolute_zero", "sampler_options": {"proposers": 2, "attempts": 4, "invalid": -0.5},
         "credit": "task_relative", "negative_advantage_weight": 1.0, "muon": True, "lr": 5e-4, "steps": 50,
         "tasks_per_step": 18, "group_size": 8},
        tasks=150,
        shared={"turn_tokens": 40, "horizon": (2,), "vocabulary": 500, "policy_episodes": 60},
    ),
    "kuhn": Game(
        (("kuhn/Dealt-v0", 1.0),),
        ("kuhn/Dealt-v0",),
        {"opponent": "self", "hands": 1},
        {"sft_episodes": 640},
        {"generation": "opponents", "credit": "mars", "negative_advantage_weight": 1.0, "steps": 20, "tasks_per_step": 16,
         "group_size": 8},
        shared={"turn_tokens": 8, "horizon": (4,), "vocabulary": 500, "policy_width": 64, "policy_layers": 2,
                "policy_induction_heads": False},
    ),
}  # fmt: skip


OWN = ", own tasks"
"""Suffix of a game without proposals in the rows."""


def config_of(name: str, seed: int, out: Path) -> TrainConfig:
    """Return the configuration of a game's warm start."""
    game = GAMES[name]
    envs = tuple(EnvSpec(id, label=id.split("/")[1], weight=weight, options=game.options) for id, weight in game.envs)
    return TrainConfig(
        envs=envs, out=str(out / f"{name}-{seed}-warm"), seed=seed, steps=0, train_split="train", valid_split="test",
        test_split="test", **{**COMMON, **game.shared, **game.warm},
    )  # fmt: skip


def poker(config: TrainConfig, first: Path, last: Path) -> dict[str, float]:
    """Return what two checkpoints can lose, and what the later one wins against the earlier one; all are exact."""
    kuhn = "kuhn/Dealt-v0"
    strategies = [exploitabilities(kuhn, [(GAMES["kuhn"].options, [])], agent_of(config, each)) for each in (first, last)]
    tables = [{name: bet for name, bet in (each or {}).items() if name != "moves"} for each in strategies]
    old, new = tables
    return {
        "before": exploitability(old), "after": exploitability(new), "chips": (value(new, old) - value(old, new)) / 2,
        "hands": hands_won(new, old), "bets": float(np.mean(list(new.values()))),
    }  # fmt: skip


def success(name: str, config: TrainConfig, policy: Path) -> float:
    """Return the share of episodes of the solver's test tasks that succeed."""
    game = GAMES[name]
    agent = agent_of(config, policy)
    options = {**game.options, "horizon": game.shared["horizon"][0]}
    episodes = agentgym.collect(
        agent, game.envs[-1][0], env_options=options, split="test", tasks=game.tasks, attempts=game.attempts
    )
    return float(np.mean([episode.success is True for episode in episodes]))


def without_proposals(game: Game) -> Game:
    """Return the game with its solver's groups alone, on tasks that the environment generates."""
    proposers = game.rl["sampler_options"]["proposers"]
    changes = {"sampler": "uniform", "sampler_options": {}, "tasks_per_step": game.rl["tasks_per_step"] - proposers}
    return replace(game, playing=game.playing[-1:], rl={**game.rl, **changes})


def play(name: str, seed: int, out: Path, own: bool) -> dict[str, Any]:
    """Train a warm start and self-play from it, or `own` tasks from it, test both, and return the row."""
    start, game = time.process_time(), without_proposals(GAMES[name]) if own else GAMES[name]
    warm = config_of(name, seed, out)
    first = trained(warm)
    envs = tuple(spec for spec in warm.envs if spec.id in game.playing)
    folder = out / f"{name}-{seed}{'-own' * own}"
    self_play = replace(warm, envs=envs, out=str(folder), model=str(first), sft_episodes=0, **game.rl)
    if name == "kuhn":
        result = poker(warm, first, trained(self_play))
    else:
        result = {"before": success(name, warm, first)}
        print(f"{name} {seed}: warm start {result['before']:.3f}", flush=True)
        result["after"] = success(name, warm, trained(self_play))
    rows = lines(Path(self_play.out) / "metrics.jsonl")
    steps = [row for row in rows if row["phase"] == "rl"]
    return {
        "game": name + OWN * own, "seed": seed, **result, "steps": len(steps),
        "proposed": steps[-1].get("curriculum/tasks_proposed", 0), "cpu": round(time.process_time() - start),
    }  # fmt: skip


def report(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of gains by game, with Student's 95 % intervals over seeds.

    Success is in percent and its gain in points. `kuhn` has exploitability in chips per hand, of which less is better.
    """
    lines = [
        "| game | seeds | warm start | after self-play | gain, 95 % interval | tasks proposed | CPU seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (name + suffix for name in GAMES for suffix in ("", OWN)):
        mine = sorted((row for row in rows if row["game"] == name), key=lambda row: row["seed"])
        if not mine:
            continue
        scale, digits, unit = (1, 3, "") if name == "kuhn" else (100, 1, " %")
        gains = np.array([scale * (row["after"] - row["before"]) for row in mine])
        half = half_width(gains)
        columns = [", ".join(f"{scale * row[key]:.{digits}f}{unit}" for row in mine) for key in ("before", "after")]
        made, cpu = (", ".join(str(round(row[key])) for row in mine) for key in ("proposed", "cpu"))
        gain = f"{gains.mean():+.{digits}f}"
        if len(gains) > 1:
            gain += f" ({gains.mean() - half:+.{digits}f} to {gains.mean() + half:+.{digits}f})"
        lines.append(f"| `{name}` | {len(mine)} | {columns[0]} | {columns[1]} | {gain} | {made} | {cpu} |")
    return lines


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("games", nargs="*", choices=[[], *GAMES], default=[])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/self-play"))
    parser.add_argument("--own", action="store_true", help="train on the environment's own tasks, without proposals")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.own and "kuhn" in args.games:
        parser.error("--own: kuhn has no proposals")
    path = args.out / "rows.jsonl"
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.games:
        for seed in args.seeds:
            if not any((row["game"], row["seed"]) == (name + OWN * args.own, seed) for row in lines(path)):
                row = play(name, seed, args.out, args.own)
                append(path, row)
                print(row, flush=True)
    if args.report:
        print("\n".join(report(lines(path))))


if __name__ == "__main__":
    main()
