"""The bench of losses: its measures by hand, its file after a kill, and two losses of it in earnest."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import losses as bench
from losses_settings import ARMS, SETTINGS

from agentgym.trainers.losses.interface import LOSSES


def test_every_loss_but_those_of_pairs_has_an_arm():
    assert set(ARMS) == set(LOSSES.table) - {"refuel", "turn_dpo", "awr"}


def test_a_seed_collapsed_if_its_last_tenth_is_half_of_its_best():
    curves = [[0.1 * n for n in range(1, 11)], [0.8, *[0.5] * 8, 0.4], [0.8, *[0.5] * 8, 0.41]]
    success = np.repeat(np.array(curves).T, 2, axis=0).tolist()  # [20 steps, 3 seeds]
    assert bench.collapsed({"success": success}).tolist() == [False, True, False]


def test_entropy_at_equal_success_is_that_of_the_first_step_that_reaches_it():
    success = [[0.0, 0.0]] * 5 + [[1.0, 0.0]] * 5
    entropy = [[1 - 0.1 * n, 2 - 0.1 * n] for n in range(10)]
    # the mean of five steps is 0.4 at the seventh; the other seed never gets there
    assert bench.entropy_when({"success": success, "entropy": entropy}) == pytest.approx([0.4, 1.1])


def test_a_difference_whose_interval_excludes_zero_is_bold():
    base, better = ({"pass_at": {"1": [value + 0.01 * n for n in range(8)]}} for value in (0.2, 0.3))
    better["pass_at"]["1"][0] += 0.016
    # 0.1 seven times and 0.116: standard deviation 0.016 / sqrt(8), half-width 2.365 * 0.016 / 8
    assert bench.against(better, base, bench.passed(1), 100, 2) == "**+10.20 ± 0.47**"
    assert bench.against(base, base, bench.passed(1), 100, 2) == "—"


def test_a_killed_bench_goes_on_and_trains_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SETTINGS, "plans", replace(SETTINGS["plans"], steps=6, warm=5, prompts=2))
    out = tmp_path / "losses.jsonl"
    bench.train(out, ["plans"], ["clip", "simko"])
    clip, simko = bench.rows_of(out)
    assert (clip["loss"], simko["loss"]) == ("clip", "simko") and clip["warm"] == simko["warm"]
    assert clip["success"][0] == simko["success"][0]  # the same prompts and weights in the first step
    assert np.array(clip["entropy"]).shape == (6, bench.SEEDS)
    whole = out.read_text()
    out.write_text(whole[: len(json.dumps(clip)) + 40])  # cut off inside of the second row
    bench.train(out, ["plans"], ["clip", "simko"])
    again = bench.rows_of(out)
    assert again[0] == clip and {**again[1], "cpu_seconds": 0} == {**simko, "cpu_seconds": 0}
    assert bench.report(again).count("\n| `") == 2
