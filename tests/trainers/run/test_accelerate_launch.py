"""The command of docs/guides/scale.md for `accelerate launch`, with a configuration of FSDP2, at a test's size."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from accelerate.state import AcceleratorState
from fake_vllm import FakeVLLM
from small_runs import TINY

from agentgym.engines.hf.engine import HFEngine
from agentgym.trainers.model.policy import init_policy
from agentgym.trainers.run.session import join_processes

ROOT = Path(__file__).parents[3]
SIZES = """--steps 2 --tasks-per-step 2 --group-size 2 --horizon 3 --turn-tokens 4 --context-tokens 2048 --env.preset tiny
--test-tasks 0 --eval-every 0 --checkpoint-every 1 --keep-episodes 1000 --lr 1e-3 --credit moving:by_turns --select keep"""
MOVING = """import agentgym, numpy as np
@agentgym.credit("by_turns")
def by_turns(group):
    return [np.array([1.0 if turn % 2 else -0.5 for turn, _ in enumerate(episode.turns)]) for episode in group]
"""
FSDP2 = """compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
machine_rank: 0
main_training_function: main
mixed_precision: 'no'
num_machines: 1
num_processes: 2
use_cpu: false
"""


def documented(**sizes):
    """Return the words of the command on the page, with other values of some."""
    page = (ROOT / "docs/guides/scale.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("$ accelerate launch")]
    words = shlex.split(line[2:])
    for flag, value in sizes.items():
        words[words.index(f"--{flag}") + 1] = value
    return words


@pytest.mark.slow  # four interpreters that import torch
def test_the_documented_command_trains_in_both_processes_and_is_resumed(tmp_path):
    """By hand: 2 steps of 2 tasks of 2 attempts are 8 episodes, and a third step makes 12, in one folder."""
    model = init_policy("rlvr/Household-v0", tmp_path / "policy", size=TINY, episodes=20)
    (tmp_path / "moving.py").write_text(MOVING)
    (tmp_path / "fsdp2.yaml").write_text(FSDP2)
    server, run = FakeVLLM(Path(model)).start(), tmp_path / "runs/one"
    untrained = HFEngine(model).model.state_dict()

    def launch(*words):
        command = [sys.executable, "-m", "accelerate.commands.accelerate_cli", *words[1:]]
        command[4:4] = ["--config_file", str(tmp_path / "fsdp2.yaml")]
        env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert ended.stderr.count("accelerate's FSDP settings are ignored") == 1, (
            "the launcher's configuration was not there"
        )

    def check_run(steps):
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        played = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows if "success_train" in row] == [*range(1, steps + 1)]
        assert json.loads((run / "summary.json").read_text())["episodes"] == 4 * steps
        # the first process keeps its share, and the other has played the rest
        assert len(played) == len({(e["group_id"], e["attempt"]) for e in played}) == 2 * steps
        assert all(row["mismatch_mean"] < 1e-3 and row["grad_norm"] > 0 for row in rows if "success_train" in row)
        newest = max((run / "checkpoints").glob("step-*"))
        assert sorted(part.name for part in (newest / "parts").glob("*.distcp")) == ["__0_0.distcp", "__1_0.distcp"]
        weights = HFEngine(newest).model.state_dict()
        served = server.engine.model.state_dict()
        assert all(torch.equal(served[name], value) for name, value in weights.items())
        return weights

    try:
        words = documented(num_processes="2", processes="2", engine=f"vllm:{server.url}")
        launch(*words, *shlex.split(SIZES), "--precision", "fp32", "--model", str(model), "--out", str(run))
        first = check_run(2)
        assert any(not torch.equal(first[name], value) for name, value in untrained.items())
        options = [f"{flag}={words[place + 1]}" for place, flag in enumerate(words) if flag.startswith("--engine.")]
        again = ["--engine", f"vllm:{server.url}", "--credit", "moving:by_turns", *options]
        launch(*words[: words.index("train") + 1], "--resume", str(run), "--steps", "3", *again)
        second = check_run(3)
    finally:
        server.kill()
    assert any(not torch.equal(second[name], value) for name, value in first.items())
    assert [path.name for path in run.parent.iterdir()] == ["one"]


@pytest.fixture
def alone():
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


def test_the_launchers_fsdp_is_turned_off_before_a_model_is_loaded(alone, monkeypatch):
    """transformers would read weights in the first process alone: the other one trained what lay in its memory."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.warns(UserWarning, match="accelerate's FSDP settings are ignored: --sharding"):
        join_processes(1, "train")
    assert "ACCELERATE_USE_FSDP" not in os.environ
