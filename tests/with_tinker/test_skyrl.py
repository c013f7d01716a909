"""What SkyRL's server computes, and a run on it that outlives a kill of either side."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import is_whole, small, trusted

from agentgym.trainers import resume
from agentgym.trainers.learners.tinker.qualify import UNCLIPPED, qualify, show
from agentgym.trainers.learners.tinker.service import Service
from agentgym.trainers.model.policy import load_policy

STEPS = 28


def test_what_it_computes(skyrl, policy):
    service = Service(skyrl.url)
    found = qualify(service, service.base_model(""), policy, load_policy(policy)[1], rank=8)
    service.close()
    assert not found.refused(), show(found)
    assert ("its gradient and our torch's", "ok") in [(what, verdict) for what, _, verdict in found.findings], show(found)
    print(show(found))
    assert found.reduction == "rows" and not found.clips_gradients, show(found)
    assert set(found.losses) == {"importance_sampling", "ppo", "cispo"}, show(found)
    assert found.mismatch < 1e-4


@pytest.mark.slow  # a fake server over our own learner is killed in every push: tests/trainers/learners/test_tinker.py
def test_a_whole_run_outlives_a_kill_of_the_client_and_of_the_server(skyrl, policy, tasks, tmp_path):
    """It learns as if nobody had been killed: success on tasks that it never trained on rises by 15 points and more."""
    config = small(
        tmp_path / "run", policy, **tasks, learner=f"tinker:{skyrl.url}", lora_rank=8, lr=4e-3, grad_clip=UNCLIPPED,
        sft_muon=False, steps=STEPS, tasks_per_step=12, group_size=8, concurrency=32, minibatches=2, credit="grpo",
        credit_options={}, test_tasks=150, learner_options={"patience": 10.0},
    )  # fmt: skip
    first = f"from agentgym.trainers import TrainConfig, train; train({config!r})"
    _until(2, tmp_path / "run", _client(first), lambda client: os.kill(client.pid, signal.SIGKILL))
    settings = trusted(tmp_path / "run")
    again = f"from agentgym.trainers import resume; resume({str(tmp_path / 'run')!r}, settings={settings!r})"
    client = _client(again)
    _until(4, tmp_path / "run", client, lambda _: skyrl.kill())
    assert client.wait(300) != 0
    skyrl.start()
    summary = resume(tmp_path / "run", settings=settings)
    rows = is_whole(tmp_path / "run", steps=STEPS, each=12 * 8, tolerance=1e-3)
    before, after = summary["success_before"], summary["success_after"]
    print(f"success: {before:.3f}, then {[round(row['success_train'], 2) for row in rows]}, at the end {after:.3f}")
    assert after - before >= 0.15
    assert json.loads((tmp_path / "run/qualified.json").read_text())["reduction"] == "rows"


def _client(code):
    folder = Path(__file__).parents[1] / "fakes"
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(folder)})


def _until(step, run, client, strike):
    """Strike once a checkpoint of a step is there, in the middle of the next step."""
    while not (run / f"checkpoints/step-{step:08d}").exists():
        assert client.poll() is None, "the client has ended"
        time.sleep(0.05)
    time.sleep(0.5)
    assert client.poll() is None, "the client has ended"
    strike(client)
