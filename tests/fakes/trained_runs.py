"""What a run over an agent of others must show: weights that moved, and not one trained token that was not sampled."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch

from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import read_episodes
from agentgym.trainers.data.segments import build


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(folder / "model.safetensors")


def watched_engine(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, ...]]:
    """Return what the engine samples during the test: prompt, tokens and log-probabilities of every completion."""
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
