"""What hints are for: a lock that chance opens once in 1,296 times, and a policy that can only follow a hint."""

import pytest
from small_runs import curve

from agentgym.trainers import TrainConfig, train
from agentgym.trainers.model.policy import PolicySize, init_policy

SIZE = PolicySize(width=64, layers=2, heads=2, vocabulary=300)
RUN = {
    "threads": 1, "turn_tokens": 4, "prompt": "bare", "sft_noise": 0.0, "sft_invalid": 0.0, "sft_forget": 0.0,
    "eval_every": 0, "checkpoint_every": 1000, "credit": "grpo",
}  # fmt: skip


@pytest.fixture(scope="module")
def follower(tmp_path_factory):
    """Return a policy that dials what a hint says and guesses the rest."""
    folder = tmp_path_factory.mktemp("follower")
    model = str(init_policy("locks:small/Shown-v0", folder / "policy", size=SIZE, episodes=100))
    config = TrainConfig(
        env="locks:small/Shown-v0", model=model, out=str(folder / "taught"), steps=0, test_tasks=0, sft_episodes=3200,
        sft_batch=16, sft_lr=6e-3, **RUN,
    )  # fmt: skip
    train(config)
    return config.out


def learned(follower, folder, **changes):
    """Return the rows of a run on the lock; its evaluations, before and after, are played without hints."""
    options = {
        "env": "locks:small/Lock-v0", "model": follower, "out": str(folder), "steps": 60, "tasks_per_step": 1,
        "group_size": 16, "lr": 1e-3, "minibatches": 1, "negative_advantage_weight": 0.1, "test_tasks": 0, **RUN, **changes,
    }  # fmt: skip
    train(TrainConfig(**options))
    return curve(folder)


def success(rows, name="success_train"):
    """Return the success of the last five steps."""
    return sum(row.get(name) or 0.0 for row in rows[-5:]) / 5


@pytest.mark.long
def test_without_hints_there_is_nothing_to_learn_from(follower, tmp_path):
    rows = learned(follower, tmp_path / "run")
    assert sum(row["success_train"] for row in rows) * 16 < 2 and success(rows) == 0
    assert sum("loss" in row for row in rows) < 2  # all groups alike: no update


ARMS = {
    "guide": {"select": "guide", "select_options": {"level": 1.0}},
    "ghpo": {"select": "ghpo"},
    "agent_rlvr": {"select": "agent_rlvr", "select_options": {"level": 0.75}},
}


@pytest.mark.long
@pytest.mark.parametrize("arm", ARMS)
def test_with_hints_the_lock_is_opened_without_them(follower, tmp_path, arm):
    rows = learned(follower, tmp_path / "run", **ARMS[arm])
    assert rows[0]["success_train"] == 0 and max(row.get("success_hinted", 0) for row in rows) > 0
    assert success(rows) > 0.6
