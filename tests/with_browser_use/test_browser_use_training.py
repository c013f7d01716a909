"""browser-use at `rlvr/Web-v0` in real browsers, trained for two steps, with a small policy made from nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import web_harness
from native_talks import SOURCES, SURVEY
from taught import taught
from trained_runs import check_run, watched_engine

from agentgym.trainers import TrainConfig, train

ACTIONS: list[dict[str, Any]] = [
    {"navigate": {"url": "http://shop.test/"}},
    {"wait": {"seconds": 1}},
    {"go_back": {}},
    {"done": {"text": "4"}},
]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy of two layers that mostly says one of a few actions; browser-use's prompts have 2,700 of its tokens."""
    torch.set_num_threads(1)
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    replies = [json.dumps({"memory": "", "action": [action]}, separators=(",", ":")) + "<|im_end|>" for action in ACTIONS]
    taught(tokenizer, replies, context=16384).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_it_is_trained(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = watched_engine(monkeypatch)
    web_harness.TOLD.clear()
    config = TrainConfig(
        env="rlvr/Web-v0", model=str(policy), agent="web_harness:play", out=str(tmp_path / "run"), steps=2,
        tasks_per_step=1, group_size=3, credit="grpo", minibatches=1, eval_every=0, test_tasks=1, threads=1, lr=1e-3,
        attempt_seconds=1500.0,
    )  # fmt: skip
    train(config)
    found = check_run(tmp_path / "run", policy, sampled, 2)
    tried = [kind for record in web_harness.TOLD for kind in record["actions"]]
    counts = {kind: tried.count(kind) for kind in sorted(set(tried))}
    print(f"\n{found}; attempts {len(web_harness.TOLD)}, actions carried out: {counts}")
    assert len(web_harness.TOLD) >= 6 and found["updates"] >= 1
