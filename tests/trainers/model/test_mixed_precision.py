"""The mixed precision of accelerate, which is one of the whole process, changes nothing in a run."""

import warnings
from types import SimpleNamespace
from typing import Any, cast

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from small_runs import curve, policy, small

from agentgym.errors import BadConfig
from agentgym.trainers import train
from agentgym.trainers.run.session import ignore_mixed_precision


@pytest.fixture
def left_behind():
    """What TRL's trainers leave in a process unless told otherwise."""
    AcceleratorState._reset_state(True)
    assert Accelerator(cpu=True, mixed_precision="bf16").mixed_precision == "bf16"
    yield
    AcceleratorState._reset_state(True)


def test_bf16_left_behind_by_another_trainer_is_ignored(left_behind, tmp_path):
    with pytest.warns(UserWarning, match="mixed precision 'bf16' is ignored: --precision"):
        train(small(tmp_path / "run", policy(tmp_path / "model"), steps=2))
    assert max(row["mismatch_mean"] for row in curve(tmp_path / "run")) < 1e-5  # with autocast: 0.01


def test_without_it_nothing_is_said(tmp_path):
    AcceleratorState._reset_state(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        train(small(tmp_path / "run", policy(tmp_path / "model"), steps=1))


def test_what_cannot_be_turned_off_is_refused():
    with pytest.raises(BadConfig, match="mixed precision is 'fp16' here"):
        ignore_mixed_precision(cast("Any", SimpleNamespace(mixed_precision="fp16")))
