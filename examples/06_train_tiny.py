"""Training, start to end in seconds: a policy from nothing, imitation, GiGPO. Run: python examples/06_train_tiny.py

Far too short to get good; `./dev train` is the run that does.
"""

import json
import tempfile
from pathlib import Path

from agentgym.trainers import train
from agentgym.trainers.config.train_config import TrainConfig


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(
            env="rlvr/FrozenLake-v0",
            env_options={"slip": 0.0, "horizon": 12},
            out=f"{folder}/run",
            sft_episodes=192,
            sft_batch=16,
            steps=3,
            tasks_per_step=8,
            group_size=4,
            minibatches=1,
            select="keep",
            turn_tokens=8,
            credit="gigpo",
            lr=2e-4,
            eval_every=0,
            test_split="test",
            test_tasks=8,
            threads=1,
        )
        summary = train(config)
        rows = [json.loads(line) for line in (Path(config.out) / "metrics.jsonl").read_text().splitlines()]
        sft = [row["nll"] for row in rows if row.get("phase") == "sft"]
        steps = [row for row in rows if row.get("phase") == "rl"]
        print(f"imitation: loss {sft[-1]:.2f}")
        for row in steps:
            print(f"step {row['step']}: success {row['success_train']:.2f}  reward {row['reward']:.2f}")
        print(f"engine against trainer: KL {max(row.get('mismatch_kl', 0.0) for row in steps):.1e}")
        names = sorted(path.name for path in Path(config.out).iterdir())
        print("files:", ", ".join(names))
        print({name: summary[name] for name in ("success_before", "success_sft", "success_after", "episodes", "credit")})


if __name__ == "__main__":
    main()
