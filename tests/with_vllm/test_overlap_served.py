"""Rollouts beside the update over real vLLM: weights change between turns, and every turn says by which it was sampled."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

from test_train_with_vllm import ENV, SIZE, WARM, config, rows

from agentgym.trainers import init_policy, resume, train
from agentgym.trainers.model.policy import PolicySize


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def test_episodes_pass_over_versions_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    model = init_policy(ENV, tmp_path / "policy", size=PolicySize(**SIZE), episodes=100)
    out = tmp_path / "run"

    def stop(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "step" and numbers["step"] == 4:
            raise KeyboardInterrupt

    # fewer in flight than a step takes: some episodes of the next step are under way at every update
    options: dict[str, Any] = {"steps": 8, "async_level": 1, "concurrency": 6, "test_tasks": 0, "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        train(config(model, out, **options), stop)
    options = config(model, out).engine_options
    resume(out, settings={"engine": "vllm", **{f"engine.{name}": value for name, value in options.items()}})
    table = rows(out)
    assert [row["step"] for row in table] == list(range(1, 9))
    for row in table:
        behind, mismatch = row["versions_behind"], row["mismatch_mean"]
        print(f"step {row['step']}: {behind:.2f} behind, mismatch {mismatch:.1e}, sample size {row['mismatch_ess']:.4f}")
        assert row["faults"] == 0, [episode["error"] for episode in lines(out) if episode["error"]]
        assert math.isfinite(row["loss"]) and row["grad_norm"] > 0
        assert 0 <= row["versions_behind"] <= 1 and row["mismatch_ess"] > 0.5
    assert max(row["versions_behind"] for row in table) > 0.2
    played: Counter[tuple[str, int]] = Counter()
    spanning = 0
    for episode in lines(out):
        step = episode["group_id"].split("/")[0]
        if not step.isdigit():
            continue
        played[episode["group_id"], episode["attempt"]] += 1
        versions = [turn["policy_version"] for turn in episode["turns"]]
        assert versions == sorted(versions) and not episode["error"]
        assert set(versions) <= {WARM + int(step) - 2, WARM + int(step) - 1}, (step, versions)
        spanning += len(set(versions)) > 1
    assert set(played.values()) == {1} and len(played) == 64
    assert spanning, "no episode was under way while weights changed"
