"""SkyRL's server trains and a real vLLM server samples: each version of the adapter goes from one to the other."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from small_runs import is_whole, small, trusted

sys.path.insert(0, str(Path(__file__).parents[1] / "with_vllm"))
from served import ADAPTERS, Server

import agentgym
from agentgym.trainers import resume, train
from agentgym.trainers.learners.tinker.qualify import UNCLIPPED

PYTHON = os.environ.get("AGENTGYM_VLLM", "")
"""The Python of an environment with vLLM, whose packages exclude SkyRL's."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="no vLLM here: ./dev test-vllm makes the environment that ./dev test-tinker uses"),
]


@agentgym.credit("by_turns_of_two_servers")
def by_turns(group):
    """Credit that moves the weights at every step, whatever is won: good and bad turns alternate."""
    return [np.array([1.0 if turn % 2 else -0.5 for turn, _ in enumerate(episode.turns)]) for episode in group]


@pytest.fixture(scope="module")
def vllm(policy):
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    server = Server(Path(policy), ADAPTERS, PYTHON)
    try:
        yield server.ready()
    finally:
        server.kill()


def test_what_vllm_samples_is_what_skyrl_trains(skyrl, vllm, policy, tmp_path):
    config = small(
        tmp_path / "run", policy, learner=f"tinker:{skyrl.url}", engine=f"vllm:{vllm.url}", lora_rank=8, lr=1e-2, steps=2,
        grad_clip=UNCLIPPED, sft_muon=False, concurrency=8, minibatches=1, credit=f"{__name__}:by_turns", credit_options={},
    )  # fmt: skip
    train(config)
    resume(tmp_path / "run", steps=4, settings=trusted(tmp_path / "run"))
    for row in is_whole(tmp_path / "run", steps=4, each=9, tolerance=1e-3):
        print(f"step {row['step']}: mismatch_mean {row['mismatch_mean']:.2g}, loss {row['loss']:.3g}")
    assert not list((skyrl.folder / "state").rglob("sampler_weights/agentgym-*.tar.gz")), "every version stays on the server"
