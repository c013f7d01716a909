"""Sampling and updates leave no tensor on the host: the same numbers come out of a device that refuses to mix with it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "fakes" / "on_card.py"
ROUNDED = {"bf16", "bf16, gradient checkpointing", "LoRA"}  # other kernels of attention round bf16 otherwise


def outcomes(part: str) -> dict[str, list[Any]]:
    """Return by case what came out on the host and on the device, both in one process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run([sys.executable, SCRIPT, part], capture_output=True, text=True, env=environment, timeout=500)
    if done.returncode == 5:
        pytest.skip("this torch cannot have a device written in Python (from 2.10)")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_engine_samples_the_same_tokens_on_another_device() -> None:
    for kind, (here, there) in outcomes("engine").items():
        assert not isinstance(here, str), (kind, here)
        assert not isinstance(there, str), (kind, there)
        for mine, other in zip(here, there, strict=True):
            assert mine[0] == other[0], kind
            for values, others in zip(mine[1:], other[1:], strict=True):
                assert values == pytest.approx(others, abs=1e-4), kind


@pytest.mark.long
def test_an_update_is_the_same_on_another_device() -> None:
    found = outcomes("update")
    for name, (here, there) in found.items():
        assert not isinstance(here, str), (name, here)
        assert not isinstance(there, str), (name, there)
        assert here[1] > 0, f"{name}: no gradient"
        assert here == pytest.approx(there, rel=0.02 if name in ROUNDED else 1e-3, abs=5e-3 if name in ROUNDED else 1e-5), (
            name
        )
    assert {"split", "loss clip", "critic", "KL"} <= set(found)
