"""The rollout worker of TRL's AsyncGRPOTrainer (which itself needs a GPU): its queue, and its packing of our samples."""

import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trl", reason="trl, of the extra `train`, is not installed")
import torch
from accelerate import PartialState
from trl.experimental.async_grpo.async_grpo_trainer import RolloutQueueDataset
from trl.experimental.async_grpo.packing import TreeRow

import agentgym
from agentgym.integrations.trl_async import RolloutWorker
from agentgym.trainers.model.policy import PolicySize, init_policy

ENV = "rlvr/GuessNumber-v0"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    size = PolicySize(width=64, layers=1, heads=2, feed_forward=64, vocabulary=400, context=1024)
    return init_policy(ENV, tmp_path_factory.mktemp("policy") / "model", size=size, episodes=20)


def test_samples_are_turns_that_trl_packs_with_their_own_advantages(policy: Path) -> None:
    torch.set_num_threads(1)
    PartialState()  # TRL's logging wants it
    worker = RolloutWorker(
        ENV,
        lambda: agentgym.engine(f"hf:{policy}"),
        group_size=2,
        groups=1,
        ahead=12,
        credit="tests.fakes.credits:by_place",
        turn_tokens=6,
        horizon=3,
    )
    worker.update_model_version(7)
    worker.start()
    try:
        metrics: dict[str, list[float]] = {"sample/dropped_stale_total": []}
        reader = iter(RolloutQueueDataset(worker.rollout_buffer, lambda: 7, worker.check_health, 60, _Sink(metrics)))
        samples = [next(reader) for _ in range(6)]
    finally:
        worker.stop()
    assert worker._thread is None and worker.metrics_queue.get()["episodes/faults"] == 0.0
    first = samples[0]["group_id"]
    assert [sample["group_id"] for sample in samples] == [first] * 6  # two episodes of three turns
    assert [float(sample["advantage"]) for sample in samples] == [1.0, 2.0, 3.0, -1.0, -2.0, -3.0]
    row = TreeRow()
    for sample in samples:
        row.add({key: torch.as_tensor(value) if isinstance(value, np.ndarray) else value for key, value in sample.items()})
    packed = row.pack()
    trained = sum(int(np.sum(np.asarray(sample["completion_mask"]))) for sample in samples)
    assert len(packed["advantages"]) == trained
    assert len(packed["input_ids"]) < sum(len(sample["input_ids"]) for sample in samples)  # prefixes are shared
    by_sample = [set(packed["advantages"][packed["segment_id"] == k].tolist()) for k in range(6)]
    assert by_sample == [{1.0}, {2.0}, {3.0}, {-1.0}, {-2.0}, {-3.0}]


class _Sink(dict):
    def __missing__(self, key: str) -> list[float]:
        self[key] = []
        return self[key]


def test_a_failure_is_told_to_the_trainer() -> None:
    def broken() -> None:
        raise RuntimeError("no server")

    worker = RolloutWorker(ENV, broken)
    worker.start()
    worker._thread.join()
    with pytest.raises(RuntimeError, match="no server"):
        worker.check_health(1)
    worker.stop()
    worker._failure, worker._beat = "", time.time() - 100
    with pytest.raises(RuntimeError, match="no episode has ended"):
        worker.check_health(10)
    with pytest.raises(agentgym.BadConfig, match="needs nothing else"):
        RolloutWorker(ENV, broken, credit="role_baseline")
