"""Several processes take the step of one, whoever of them has nothing to train."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from two_processes import CASES, update

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two real processes make of the stored episodes: (metrics, weights) by case."""
    out = tmp_path_factory.mktemp("two") / "found"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, str(HERE / "two_processes.py"), str(out)],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(said)
    return json.loads(out.read_text()), torch.load(f"{out}.pt", weights_only=True)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_step_of_one_though_one_has_only_uniform_groups(two, case):
    metrics, after, before = update(case)
    step = after - before
    assert float(step.norm()) > 1e-3
    if case != "corrected":  # its mini-batches are dealt by each process
        torch.testing.assert_close(two[1][case] - before, step, rtol=1e-6, atol=1e-7 * float(step.norm()))
        for name in ("loss", "entropy", "logp", "mismatch_mean", "mismatch_q999"):
            assert two[0][case][name] == pytest.approx(metrics[name], rel=1e-5), name
