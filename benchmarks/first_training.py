"""First trainings on `rlvr/Code-v0` and `rlvr/Terminal-v0`: policies of 0.6 million parameters, one command or program.

python benchmarks/first_training.py code --seeds 0 1 2 --out runs/first     imitation, training, test; resumes
python benchmarks/first_training.py code --out runs/first --report          print the table of what is there

`code`: a function on bits, in one turn, interpreted in this process (see code_envs.py). About a third of the demonstrations
has an operation drawn at random in place of a step or of the result, so that imitation leaves something to learn. Programs
of the trained policy run in sandboxes too, to compare the verdicts.
`terminal`: a shell command that lists the largest files, then `submit`. A demonstration played in this environment takes a
sandbox for each action. So the expert's actions are written down without playing them: the statement is the observation,
the solution is right by construction (the environment's tests run it), and the command prints nothing.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from seed_rows import agent_of, append, half_width, lines, newest, trained

sys.path.append(str(Path(__file__).parent))

from code_envs import agreement

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.terminal.env import Terminal
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.config.train_config import TrainConfig

FIRST = 1_000_000
"""Number of the first demonstrated task; reinforcement learning begins at 0."""

DEMONSTRATIONS = 2000
"""Number of unplayed demonstrations of `terminal`; fewer make a weaker warm start."""
TESTED = {"code": (200, 2), "terminal": (200, 1)}
"""Tasks of a test, and attempts at each."""


def actions(env: Terminal) -> list[str]:
    """Return the actions of a demonstration: the one command that writes the file, then `submit`."""
    command = next(command for command in env.solution_commands() if " > " in command)
    return [spell("bash", command), spell("submit")]


def write_demonstrations(config: TrainConfig, path: Path, count: int) -> None:
    """Write the expert's actions, none of which is played."""
    env = agentgym.make(config.env, split="train", **config.env_options).unwrapped
    assert isinstance(env, Terminal)
    with path.with_suffix(".part").open("w") as file:
        for number in range(FIRST, FIRST + count):
            task = env.numbered(number, "train")
            observation, _ = env.reset(seed=0, options={"task": task})
            turns: list[Turn] = []
            for action in actions(env):
                turns.append(Turn(observation, action=action, reward=0.0, rewards={"outcome": 0.0}))
                observation = "[no output]"
            turns[-1].reward, turns[-1].rewards = 1.0, {"outcome": 1.0}
            episode = Episode(config.env, task.id, task.id, 0, turns=turns, instruction=task.instruction, split="train")
            episode.success, episode.reason, episode.horizon, episode.reward = True, "success", len(turns), 1.0
            file.write(episode.to_json() + "\n")
    path.with_suffix(".part").rename(path)
    env.close()


def unplayed_warm_start(config: TrainConfig, out: Path, demonstrations: int) -> Path:
    """Imitate demonstrations that are not played, and return the policy."""
    from agentgym.trainers.config.imitation_config import ImitationConfig
    from agentgym.trainers.model.policy import PolicySize, init_policy
    from agentgym.trainers.run.imitation import sft

    file, policy, taught = (out / name for name in ("demonstrations.jsonl", "policy", "sft"))
    if not file.exists():
        write_demonstrations(config, file, demonstrations)
    if not (policy / "config.json").exists():
        size = PolicySize(vocabulary=config.vocabulary, pre_tokenizer=config.pre_tokenizer, induction_heads=True)
        init_policy(config.env, policy, env_options=config.env_options, size=size, episodes=80, seed=config.seed)
    if not (taught / "summary.json").exists():
        sft(
            ImitationConfig(
                files=(str(file),), model=str(policy), out=str(taught), seed=config.seed, batch=16, lr=8e-3, muon=True,
                prompt="bare", processes=1, threads=1,
            )
        )  # fmt: skip
    return newest(taught)


def tested(name: str, policy: Path, config: TrainConfig) -> list[Episode]:
    """Return attempts at tasks of `test`."""
    agent = agent_of(config, policy)
    tasks, attempts = TESTED[name]
    return agentgym.collect(agent, config.env, env_options=config.env_options, split="test", tasks=tasks, attempts=attempts)


def success(episodes: list[Episode]) -> float:
    """Return the share of episodes that succeed."""
    return float(np.mean([episode.success is True for episode in episodes]))


def first_training(name: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Train from a warm start, test both, and return the row."""
    start = time.process_time()
    out = args.out / f"{name}-{seed}"
    out.mkdir(parents=True, exist_ok=True)
    config = replace(
        read_recipe(str(Path(__file__).with_name(f"first_training_{name}.toml"))), seed=seed, eval_every=0, test_tasks=0
    )
    if config.sft_episodes:
        first = trained(replace(config, out=str(out / "sft"), steps=0))
    else:
        first = unplayed_warm_start(config, out, args.demonstrations)
    row: dict[str, Any] = {"env": name, "seed": seed, "before": success(tested(name, first, config))}
    print(f"before: {row['before']:.3f}, {time.process_time() - start:.0f} CPU s", flush=True)
    last = trained(replace(config, model=str(first), out=str(out / "rl"), sft_episodes=0))
    episodes = tested(name, last, config)
    steps = [step for step in lines(out / "rl" / "metrics.jsonl") if step["phase"] == "rl"]
    row |= {
        "after": success(episodes), "steps": len(steps), "cpu": round(time.process_time() - start),
        "signal": sum(step["groups_trained"] for step in steps) / sum(step["groups"] for step in steps),
    }  # fmt: skip
    if name == "code":
        row["sandboxed"] = agreement([(e.task_id, e.turns[0].action or "") for e in episodes[:: TESTED[name][1]]])
    return row


def report(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of runs, and the gain of each environment with Student's 95 % interval over seeds."""
    table = ["| environment | seed | warm start | after | groups with a signal | steps | CPU seconds |", "|---" * 7 + "|"]
    for row in rows:
        shares = (f"{100 * row[key]:.{digits}f} %" for key, digits in (("before", 1), ("after", 1), ("signal", 0)))
        table.append(f"| {row['env']} | {row['seed']} | {' | '.join(shares)} | {row['steps']} | {row['cpu']} |")
    for name in TESTED:
        gains = [100 * (row["after"] - row["before"]) for row in rows if row["env"] == name]
        if len(gains) > 1:
            mean, half = np.mean(gains), half_width(gains)
            table.append(f"{name}: {mean:+.1f} points ({mean - half:+.1f} to {mean + half:+.1f})")
    return table


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("env", choices=TESTED)
    parser.add_argument("--out", type=Path, default=Path("runs/first"))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--demonstrations", type=int, default=DEMONSTRATIONS, help="of terminal")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    path = args.out / "rows.jsonl"
    for seed in args.seeds if not args.report else ():
        if not any((row["env"], row["seed"]) == (args.env, seed) for row in lines(path)):
            row = first_training(args.env, seed, args)
            append(path, row)
            print(row, flush=True)
    if args.report:
        print("\n".join(report(lines(path))))


if __name__ == "__main__":
    main()
