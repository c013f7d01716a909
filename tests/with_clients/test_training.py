"""Harnesses of others, played at `rlvr/Terminal-v0` and trained for two steps, with a small policy made from nothing."""

import os
from pathlib import Path
from typing import Any

import harnesses
import pytest
from trained_runs import check_run, watched_engine

from agentgym.trainers import TrainConfig, train

pytestmark = pytest.mark.skipif(
    not os.environ.get("AGENTGYM_CLIENTS"), reason="the clients have an environment of their own: ./dev test-clients"
)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, ...]]:
    return watched_engine(monkeypatch)


QUICK = ("openai_agents", "langgraph")
ALL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in (*harnesses.CHILDREN, "claude")]


@pytest.mark.parametrize("harness", ALL)
def test_a_harness_is_trained(harness: str, folder: Path, tmp_path: Path, sampled: set[tuple[Any, ...]]) -> None:
    if harness == "claude" and not Path(os.environ.get("AGENTGYM_AGENTS", "none"), harness).exists():
        pytest.skip("claude is not here: ./dev test-clients installs it where there is npm")
    harnesses.BROKEN.clear()
    config = TrainConfig(
        env="rlvr/Terminal-v0", model=str(folder), agent=f"harnesses:{harness}", out=str(tmp_path / "run"), steps=2,
        tasks_per_step=2, group_size=3, credit="grpo", minibatches=1, eval_every=0, test_tasks=1, threads=1, lr=1e-3,
        attempt_seconds=300.0,
    )  # fmt: skip
    try:
        train(config)
    finally:
        if harness in harnesses.CHILDREN:
            harnesses.CHILDREN[harness].stop()
    assert not harnesses.BROKEN, harnesses.BROKEN[:3]
    print(f"\n{harness}: {check_run(tmp_path / 'run', folder, sampled, 2)}")
