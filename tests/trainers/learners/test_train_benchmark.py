"""The arms of `benchmarks/train.py` do equal work: the same tokens are sampled, and the first gradient is the same."""

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import train_arms
import train_env

from agentgym.trainers.data.segments import Segment

FULL = train_arms.Setting(lengths=(2, 5), tasks=1, group=3)
WINDOW = train_arms.Setting(agent="window", lengths=(2, 5), tasks=1, group=3)
PADDED = ("packed, library's forward pass", "packed, a row per turn", "padded", "padded, 32 rows", "padded, finished, old")


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return train_env.make_policy(tmp_path_factory.mktemp("policy"), "tiny")


def played(policy, setting, arm):
    run = train_arms.run_of(policy, setting, train_arms.ARMS[arm])
    return run, asyncio.run(run.play(1))


@pytest.mark.parametrize("setting", [FULL, WINDOW])
def test_all_arms_have_the_same_first_gradient(policy, setting):
    _, episodes = played(policy, setting, "packed")
    ours = train_arms.first_gradient(policy, episodes, setting, train_arms.ARMS["packed"])
    assert ours.norm() > 0.01
    for arm in PADDED:
        theirs = train_arms.first_gradient(policy, episodes, setting, train_arms.ARMS[arm])
        assert (ours - theirs).norm() < 1e-4 * theirs.norm(), arm


@pytest.mark.parametrize("setting", [FULL, WINDOW])
def test_all_arms_sample_the_same_turns(policy, setting):
    runs = {arm: played(policy, setting, arm) for arm in ("packed", "padded", "padded, finished")}
    turns = {
        arm: [[(turn.observation, len(turn.output_ids), turn.reward) for turn in episode.turns] for episode in episodes]
        for arm, (_, episodes) in runs.items()
    }
    assert turns["packed"] == turns["padded"] == turns["padded, finished"]
    lengths = [len(episode) for episode in turns["packed"]]
    assert set(lengths) == {2, 5}
    assert len({episode[-1][2] for episode in turns["packed"]}) == 3  # no two are paid alike: no row without gradient
    sampled = sum(length for episode in turns["packed"] for _, length, _ in episode)
    decoded = {arm: run.engine.decoded for arm, (run, _) in runs.items()}
    assert decoded["packed"] == decoded["padded"] == sampled
    assert decoded["padded, finished"] > sampled


def test_padded_rows_have_prompts_that_end_at_one_column():
    def row(prompt, reply):
        ids = np.arange(1, prompt + reply + 1, dtype=np.int32)
        is_reply = ids > prompt
        return Segment(
            0,
            ids,
            is_reply,
            is_reply.astype(np.float32),
            -is_reply.astype(np.float32),
            np.where(is_reply, 0, -1).astype(np.int32),
        )

    rows = [row(1, 2), row(3, 1)]
    batch = train_arms.padded_batch(rows, [segment.mask / 3 for segment in rows])
    found = sorted(zip(batch.ids.tolist(), batch.mask.tolist(), batch.positions.tolist(), strict=True))
    assert found == [
        ([0, 0, 1, 2, 3], [0, 0, 1, 1, 1], [0, 0, 0, 1, 2]),
        ([1, 2, 3, 4, 0], [1, 1, 1, 1, 0], [0, 1, 2, 3, 3]),
    ]
    flat = batch.ids.flatten()
    assert flat[batch.places].tolist() == [token - 1 for token in batch.targets.tolist()]
