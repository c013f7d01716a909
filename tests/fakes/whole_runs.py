"""Small whole runs of training, in this process and in a child."""

import pytest

from agentgym.trainers import train
from agentgym.trainers.config.train_config import TrainConfig


def small(out, **changes):
    options = {
        "env": "rlvr/GuessNumber-v0",
        "out": str(out),
        "sft_episodes": 40,
        "sft_batch": 2,
        "steps": 4,
        "tasks_per_step": 2,
        "group_size": 4,
        "horizon": (2, 3),
        "horizon_steps": 2,
        "eval_every": 2,
        "eval_tasks": 3,
        "valid_split": "valid",
        "test_split": "test",
        "test_tasks": 3,
        "checkpoint_every": 1,
        "select": "keep",
        "credit_options": {"penalty": 0.1},
        "turn_tokens": 6,
        "threads": 1,
        "policy_width": 64,
        "policy_layers": 1,
        "policy_episodes": 100,
        "vocabulary": 400,
    }
    return TrainConfig(**{**options, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(small(folder / "run"))


CHILD = """
import os, sys
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers import resume, train
from pathlib import Path
kind, number = sys.argv[2], int(sys.argv[3])
def show(what, numbers):
    if what == kind and numbers.get("step") == number:
        os.kill(os.getpid(), 9)
train(read_config(Path(sys.argv[1])), show)
"""
