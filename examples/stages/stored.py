"""Stored episodes: an expert's are imitated, and written as a table for TRL. Run: python examples/stages/stored.py"""

import subprocess
import sys
import tempfile
from pathlib import Path

import agentgym
from agentgym.trainers import init_policy


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = str(folder / "expert.jsonl")
        agentgym.collect(agentgym.ExpertAgent(), "rlvr/FrozenLake-v0", tasks=16, out=files)
        init_policy("rlvr/FrozenLake-v0", folder / "policy", episodes=20)
        for words in (
            ["sft", files, "--model", str(folder / "policy"), "--prompt", "bare", "--success", "--out", str(folder / "sft")],
            ["export", files, "--as", "sft", "--success", "--no-tokens", "--out", str(folder / "data.parquet")],
        ):
            subprocess.run([sys.executable, "-m", "agentgym", *words], check=True)


if __name__ == "__main__":
    main()
