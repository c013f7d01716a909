"""The progress lines of a training run, as a terminal of 80 columns and a file get them."""

import io
from typing import Any

import pytest
from rich.console import Console

from agentgym.cli.train_screen import Screen
from agentgym.trainers.config.train_config import TrainConfig

STEP: dict[str, Any] = {
    "step": 7, "phase": "rl", "success_train": 0.25, "reward": 0.25, "turns": 11.5, "valid": 0.94, "parsed": 0.98,
    "cut": 0.02, "reply_tokens": 12.4, "faults": 0, "groups": 16, "groups_equal": 12, "groups_alone": 0,
    "groups_trained": 4, "groups_dropped": 12, "tokens": 4000, "tokens_per_second": 1234.0, "share_env": 0.1,
    "share_rollout": 0.6, "share_train": 0.3, "grad_norm": 0.4, "entropy": 0.31, "mismatch_kl": 2e-6,
    "reference_kl": 3e-3, "fault_share": 0.0, "eta_seconds": 75.0, "lr": 1e-4, "curriculum/difficulty": 3.0,
    "success_started": 0.5, "success_hinted": 0.75,
}  # fmt: skip
IDLE = {**STEP, "groups_equal": 16, "groups_trained": 0, "success_train": 0.0}


def lines(rows: list[dict[str, Any]], *, terminal: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, highlight=False, no_color=True)
    screen = Screen(console, TrainConfig(), "run")
    for row in rows:
        screen("step", row)
    return console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]


def test_a_line_has_valid_parsed_and_cut_shares_and_the_length_of_replies() -> None:
    [line] = lines([STEP], terminal=False)
    assert "valid/parsed/cut 94/98/2%" in line and "12 tokens/reply" in line
    [short] = lines([STEP], terminal=True)
    assert len(short) <= 80 and "valid/parsed/cut 94/98/2%" in short and "1:15 left" in short


def test_at_80_columns_the_longest_shares_stand_beside_success_and_time() -> None:
    full = {"success_train": 1.0, "success_valid": 1.0, "valid": 1.0, "parsed": 1.0, "cut": 0.0}
    [line] = lines([{**STEP, **full}], terminal=True)
    assert line == "step    7  success 100%  held out 100%  valid/parsed/cut 100/100/0%  1:15 left"


def test_the_two_kinds_of_kl_have_names_of_their_own_and_a_step_without_an_update_has_neither() -> None:
    [line] = lines([STEP], terminal=False)
    assert "reference kl 3.0e-03" in line and "engine kl 2.0e-06" in line and "  kl " not in line
    idle = {name: value for name, value in IDLE.items() if name not in ("mismatch_kl", "reference_kl", "entropy")}
    assert "kl" not in lines([idle], terminal=False)[0] and "entropy" not in lines([idle], terminal=False)[0]


def test_the_curriculum_and_episodes_that_are_not_whole_stand_in_the_line() -> None:
    [line] = lines([{**STEP, "success_train": float("nan")}], terminal=False)
    assert line.startswith("step    7  success    -  held out    -")  # every episode of the step began elsewhere
    assert "started 50%" in line and "hinted 75%" in line and "difficulty 3" in line


@pytest.mark.parametrize("terminal", [False, True])
def test_a_step_without_an_update_says_so_and_three_say_what_to_do(terminal: bool) -> None:
    two = lines([IDLE, IDLE], terminal=terminal)
    assert [line.strip() for line in two if "no update" in line] == ["no update: all 16 groups had equal returns"] * 2
    assert not [line for line in two if "in a row" in line]
    three = lines([IDLE, IDLE, IDLE], terminal=terminal)
    assert any("3 steps in a row without an update" in line for line in three)
    assert all(word in " ".join(three) for word in ("--sampler window", "--group-size", "--sft-episodes"))
    if terminal:  # whole words within the width
        assert max(map(len, three)) <= 80
    assert not [line for line in lines([IDLE, IDLE, STEP, IDLE], terminal=terminal) if "in a row" in line]
    many = " ".join(lines([IDLE] * 25, terminal=False))
    assert many.count("in a row without an update") == 3  # after 3, 10 and 20
