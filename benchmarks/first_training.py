"""First trainings on `rlvr/Code-v0` and `rlvr/Terminal-v0`: policies of 0.6 million parameters, one command or program.

python benchmarks/first_training.py terminal --out runs/first     demonstrations, imitation, training, test; resumes

`code`: a function on bits, in one turn. `terminal`: a shell command that lists the largest files, then `submit`.
A demonstration played in the environment takes a sandbox for each action. Here the expert's actions are written down
without playing them: of a generated task the statement is the observation, the solution is right by construction (the
environments' tests run it), and the command prints nothing. So `agentgym sft` imitates thousands in minutes, and only
reinforcement learning and tests start sandboxes.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.terminal.env import Terminal
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.config.train_config import TrainConfig

FIRST = 1_000_000
"""Number of the first demonstrated task; reinforcement learning begins at 0."""


DEMONSTRATIONS = {"code": 3000, "terminal": 2000}
"""Default numbers of demonstrations; fewer make a weaker warm start."""


def actions(env: agentgym.TextEnv) -> list[str]:
    """Return the actions of a demonstration: a program, or the one command that writes the file."""
    if not isinstance(env, Terminal):
        return [next(iter(env.expert()))]
    command = next(command for command in env.solution_commands() if " > " in command)
    return [spell("bash", command), spell("submit")]


def write_demonstrations(config: TrainConfig, path: Path, count: int) -> None:
    """Write the expert's actions, none of which is played."""
    env = agentgym.make(config.env, split="train", **config.env_options).unwrapped
    assert isinstance(env, agentgym.TextEnv)
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


def newest(folder: Path) -> Path:
    """Return the newest checkpoint of a run."""
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def success(policy: Path, config: Any, tasks: int) -> tuple[float, float]:
    """Return the success on `tasks` tasks of `test`, and its standard error."""
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    engine = HFEngine(str(policy), slots=64)
    agent = config.spec.make(engine, Sampling(temperature=1.0), engine.tokenizer)
    episodes = agentgym.collect(agent, config.env, env_options=config.env_options, split="test", tasks=tasks)
    won = np.array([episode.success is True for episode in episodes])
    return float(won.mean()), float(won.std() / len(won) ** 0.5)


def main() -> None:
    """Run what is missing."""
    from agentgym.trainers import resume, train
    from agentgym.trainers.config.imitation_config import ImitationConfig
    from agentgym.trainers.model.policy import PolicySize, init_policy
    from agentgym.trainers.run.imitation import sft

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("env", choices=DEMONSTRATIONS)
    parser.add_argument("--out", type=Path, default=Path("runs/first"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--demonstrations", type=int, help="default: 3000 for code, 2000 for terminal")
    parser.add_argument("--tasks", type=int, default=200)
    args = parser.parse_args()
    config = replace(read_recipe(str(Path(__file__).with_name(f"first_training_{args.env}.toml"))), seed=args.seed)
    demonstrations = args.demonstrations or DEMONSTRATIONS[args.env]
    out = args.out / f"{args.env}-{args.seed}"
    out.mkdir(parents=True, exist_ok=True)
    start = time.time()
    file, policy, taught, run = (out / name for name in ("demonstrations.jsonl", "policy", "sft", "rl"))
    if not file.exists():
        write_demonstrations(config, file, demonstrations)
        print(f"demonstrations: {time.time() - start:.0f} s", flush=True)
    if not (policy / "config.json").exists():
        size = PolicySize(vocabulary=config.vocabulary, pre_tokenizer=config.pre_tokenizer, induction_heads=True)
        init_policy(config.env, policy, env_options=config.env_options, size=size, episodes=80, seed=args.seed)
        print(f"policy: {time.time() - start:.0f} s", flush=True)
    if not (taught / "summary.json").exists():
        sft(
            ImitationConfig(
                files=(str(file),), model=str(policy), out=str(taught), seed=args.seed, batch=16, lr=8e-3, muon=True,
                prompt="bare", processes=1, threads=1,
            )
        )  # fmt: skip
        print(f"sft: {time.time() - start:.0f} s", flush=True)
    row: dict[str, Any] = {"seed": args.seed, "demonstrations": demonstrations}
    row["before"] = success(newest(taught), config, args.tasks)
    print(f"before: {row['before']}, {time.time() - start:.0f} s", flush=True)
    if not (run / "summary.json").exists():
        if (run / "checkpoints").exists() and any((run / "checkpoints").glob("step-*")):
            resume(run)
        else:
            train(replace(config, model=str(newest(taught)), out=str(run), eval_every=0, test_tasks=0))
    row["after"] = success(newest(run), config, args.tasks)
    print(json.dumps({**row, "seconds": round(time.time() - start)}), flush=True)


if __name__ == "__main__":
    main()
