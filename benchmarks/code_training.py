"""A first training on `rlvr/Code-v0`: a policy of 0.6 million parameters writes functions on bits, in one turn.

python benchmarks/code_training.py --out runs/code        demonstrations, imitation, training, test; resumes where it stopped

A demonstration played in the environment takes a sandbox for `run`, `test` and `submit`. Here the expert's submission is
written down without playing it: of a generated task the statement is the observation, and the solution is right by
construction (`tests/envs/code/test_code_families.py` runs them). So `agentgym sft` imitates thousands in minutes, and only
reinforcement learning and tests start sandboxes, one for each submission.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import agentgym
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.config.recipe_files import read_recipe

FIRST = 1_000_000
"""Number of the first demonstrated task; reinforcement learning begins at 0."""


def write_demonstrations(path: Path, options: dict[str, Any], count: int) -> None:
    """Write the expert's submissions, none of which is played."""
    env = agentgym.make("rlvr/Code-v0", split="train", **options).unwrapped
    assert isinstance(env, agentgym.TextEnv)
    with path.with_suffix(".part").open("w") as file:
        for number in range(FIRST, FIRST + count):
            task = env.numbered(number, "train")
            observation, _ = env.reset(seed=0, options={"task": task})
            turn = Turn(observation, action=next(env.expert()), reward=1.0, rewards={"outcome": 1.0})
            episode = Episode("rlvr/Code-v0", task.id, task.id, 0, turns=[turn], instruction=task.instruction, split="train")
            episode.success, episode.reason, episode.horizon, episode.reward = True, "success", 1, 1.0
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
    parser.add_argument("--out", type=Path, default=Path("runs/code"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--demonstrations", type=int, default=3000)
    parser.add_argument("--tasks", type=int, default=200)
    args = parser.parse_args()
    config = replace(read_recipe(str(Path(__file__).with_suffix(".toml"))), seed=args.seed)
    out = args.out / str(args.seed)
    out.mkdir(parents=True, exist_ok=True)
    start = time.time()
    file, policy, taught, run = (out / name for name in ("demonstrations.jsonl", "policy", "sft", "rl"))
    if not file.exists():
        write_demonstrations(file, dict(config.env_options), args.demonstrations)
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
    row: dict[str, Any] = {"seed": args.seed, "demonstrations": args.demonstrations}
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
