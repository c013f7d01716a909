"""Harnesses of others, played at `rlvr/Terminal-v0` and trained for two steps, with a small policy made from nothing."""

import json
import math
import os
from pathlib import Path
from typing import Any

import harnesses
import numpy as np
import pytest
import safetensors.torch

from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import read_episodes
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.segments import build

pytestmark = pytest.mark.skipif(
    not os.environ.get("AGENTGYM_CLIENTS"), reason="the clients have an environment of their own: ./dev test-clients"
)


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(folder / "model.safetensors")


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, ...]]:
    """What the engine sampled during the test: prompt, tokens and log-probabilities of every completion."""
    seen: set[tuple[Any, ...]] = set()
    generate = HFEngine.generate

    async def watched(self: HFEngine, prompt_ids: Any, *args: Any, **options: Any) -> Any:
        done = await generate(self, prompt_ids, *args, **options)
        seen.add((tuple(prompt_ids), tuple(done.ids), tuple(done.logprobs)))
        return done

    monkeypatch.setattr(HFEngine, "generate", watched)
    return seen


def check_run(run: Path, policy: Path, sampled: set[tuple[Any, ...]], steps: int) -> dict[str, float]:
    """Finite losses, weights that moved, and not one trained token that the policy did not sample."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [row for row in rows if "grad_norm" in row]
    assert len(rows) == steps and updates, rows
    assert all(math.isfinite(row["loss"]) and row["grad_norm"] > 0 and row["mismatch_mean"] < 1e-3 for row in updates)
    (after,) = (run / "checkpoints").glob(f"step-{steps:08}/**/model.safetensors")
    new, old = weights(after.parent), weights(policy)
    assert any(not np.array_equal(new[name].float().numpy(), old[name].float().numpy()) for name in old)
    episodes = read_episodes(run / "episodes.jsonl")
    turns, trained, extended = 0, 0, 0
    for episode in episodes:
        for turn in episode.turns:
            turns += 1
            assert (tuple(turn.prompt_ids), tuple(turn.output_ids), tuple(turn.logprobs)) in sampled
        built = build([episode])
        extended += len(episode.turns) - len(built)
        assert int(episode.metrics["drifted_tokens"]) == 0
        assert sum(row.trained for row in built) == sum(len(turn.output_ids) for turn in episode.turns)
        outputs = [id for turn in episode.turns for id in turn.output_ids]
        assert [int(id) for row in built for id in row.ids[row.mask]] == outputs
        trained += len(outputs)
    return {"episodes": len(episodes), "turns": turns, "extended": extended, "trained": trained, "updates": len(updates)}


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
