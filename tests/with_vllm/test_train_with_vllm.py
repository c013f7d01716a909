"""Whole training runs with `engine = "vllm"`: weights arrive at every step, runs resume, nothing is left running."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

import agentgym
from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig, init_policy, resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.model.policy import PolicySize
from agentgym.trainers.weights import sync

ENV = "rlvr/GuessNumber-v0"
SIZE = {"width": 64, "layers": 2, "heads": 2, "feed_forward": 128, "vocabulary": 400, "context": 512}
ENGINE = {"enforce_eager": True, "max_num_seqs": 16, "kv_cache_memory_bytes": 32 << 20}
WARM = 4
"""Updates of imitation."""


@agentgym.credit("by_turns")
def by_turns(group: Any) -> list[Any]:
    """Credit that moves the weights at every step, whatever is won: good and bad turns alternate."""
    return [np.array([1.0 if turn % 2 else -0.5 for turn, _ in enumerate(episode.turns)]) for episode in group]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return init_policy(ENV, tmp_path_factory.mktemp("policy"), size=PolicySize(**SIZE), episodes=100)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Something that every process started here carries."""
    monkeypatch.setenv("AGENTGYM_TEST_MARK", f"{os.getpid()}-{os.urandom(8).hex()}")
    return os.environ["AGENTGYM_TEST_MARK"]


def config(policy: Path, out: Path, **changes: Any) -> TrainConfig:
    options: dict[str, Any] = {
        "env": ENV, "engine": "vllm", "engine_options": ENGINE, "model": str(policy), "out": str(out), "steps": 10,
        "sft_episodes": 8 * WARM, "tasks_per_step": 2, "group_size": 4, "select": "keep", "turn_tokens": 6,
        "context_tokens": 384, "threads": 1, "eval_every": 0, "test_tasks": 2, "checkpoint_every": 4, "lr": 1e-3,
        "keep_episodes": 8, "credit": f"{__name__}:by_turns",
    }  # fmt: skip
    return TrainConfig(**{**options, **changes})


def rows(out: Path) -> list[dict[str, Any]]:
    table = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row for row in table if row["phase"] == "rl"]


def running(mark: str) -> list[str]:
    """Return vLLM's processes that carry the mark."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark.encode() in (folder / "environ").read_bytes()
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if marked and int(folder.name) != os.getpid() and "VLLM" in name:
            found.append(name)
    return found


def test_ten_steps_stopped_and_resumed(policy: Path, tmp_path: Path, mark: str) -> None:
    out = tmp_path / "run"
    seen: list[list[str]] = []

    def stop(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "step" and numbers["step"] == 6:
            seen.append(running(mark))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config(policy, out), stop)
    assert len(seen[0]) >= 1 and not running(mark)
    assert (out / "checkpoints" / f"step-{WARM + 6:06d}").exists() or list((out / "checkpoints").iterdir())
    summary = resume(out, settings={"engine": "vllm", **{f"engine.{name}": value for name, value in ENGINE.items()}})
    assert not running(mark)

    table = rows(out)
    assert [row["step"] for row in table] == list(range(1, 11)) and summary["episodes"] == 8 * WARM + 80
    assert all(row["grad_norm"] > 0.1 for row in table)  # or no new weights would have to arrive
    for row in table:
        print(f"step {row['step']}: mismatch mean {row['mismatch_mean']:.1e}, 99.9 % {row['mismatch_q999']:.1e}")
        assert row["mismatch_mean"] < 1e-3 and row["mismatch_ess"] > 0.99
    versions: dict[str, set[int]] = {}
    for line in (out / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        assert not episode["error"]
        versions.setdefault(episode["group_id"].split("/")[0], set()).update(
            turn["policy_version"] for turn in episode["turns"]
        )
    assert [versions[str(step)] for step in range(1, 11)] == [{WARM + step - 1} for step in range(1, 11)]
    assert versions["success_after"] == {WARM + 10}


def test_a_run_whose_weights_do_not_arrive_shows_it(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers with the way to the engine broken: what the test above would see."""

    async def only_count(self: Any, version: int) -> None:
        self._engine.policy_version = version

    monkeypatch.setattr(sync.Transfer, "push", only_count)
    train(config(policy, tmp_path / "run", steps=1, test_tasks=0))
    assert rows(tmp_path / "run")[0]["mismatch_mean"] > 1e-3


def test_a_mixture_trains(tmp_path: Path) -> None:
    mixture = init_policy(ENV, tmp_path / "moe", size=PolicySize(**SIZE, experts=4), episodes=100)
    train(config(mixture, tmp_path / "run", steps=3, test_tasks=0, sft_muon=False))
    assert [row["mismatch_mean"] < 1e-3 for row in rows(tmp_path / "run")] == [True] * 3


def test_an_engine_goes_with_a_run_that_fails(policy: Path, tmp_path: Path, mark: str) -> None:
    """Wrong options leave no folder; what raises in a run, or kills it, leaves no process."""
    with pytest.raises(BadConfig, match="no option of the vllm engine 'max_num_seq'"):
        train(config(policy, tmp_path / "wrong", engine_options={"max_num_seq": 3}))
    assert not (tmp_path / "wrong").exists()
    run = "from agentgym.trainers import train; from agentgym.trainers.config.recipe_files import read_config; "
    run += "from pathlib import Path; "
    (tmp_path / "run.toml").write_text(to_toml(config(policy, tmp_path / "killed", credit="grpo")))
    program = tmp_path / "program.py"
    program.write_text(
        f"import os, signal\n{run}\n"
        "def show(kind, numbers):\n    if kind == 'eval': os.kill(os.getpid(), signal.SIGKILL)\n"
        f"if __name__ == '__main__': train(read_config(Path({str(tmp_path / 'run.toml')!r})), show)\n"
    )
    done = subprocess.run([sys.executable, str(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    assert done.returncode == -9
    for _ in range(600):
        if not running(mark):
            break
        subprocess.run(["sleep", "0.1"])
    assert not running(mark)
