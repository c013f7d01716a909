"""The bench of credit: its intervals and tables by hand, its file after a kill, and one round of it in earnest."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import credit as bench
import credit_efficiency
import credit_report as report
from credit import Cell


def row(arm, seed, success, **changes):
    return {
        "setting": "household", "arm": arm, "penalty": 0.0, "lr": 1e-3, "seed": seed, "success": success, "tokens": 1000,
        "entropy": 0.1, "train": [0.1, success, success, success, success, success], **changes,
    }  # fmt: skip


def test_paired_differences_by_hand():
    # 0.1, 0.2, 0.3: standard deviation 0.1, half-width 4.303 * 0.1 / sqrt(3)
    values, mean, half = report.paired({0: 0.5, 1: 0.6, 2: 0.7, 9: 1.0}, {0: 0.4, 1: 0.4, 2: 0.4, 5: 0.0})
    assert values == pytest.approx([0.1, 0.2, 0.3]) and mean == pytest.approx(0.2)
    assert half == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)
    # 46 seeds: 2.0141 * 0.1 / sqrt(46) = 0.0297; 45: 2.0154 * 0.1 / sqrt(45) = 0.03004
    assert report.seeds_needed(values) == 46
    assert report.said((values, mean, half)) == "+20.0 (-4.8 to +44.8; needs 46 seeds)"
    assert report.said(report.paired({0: 0.5}, {0: 0.4})) == "+10.0 (one seed)"


def test_the_table_by_hand():
    rows = [row("grpo", seed, 0.4 + 0.1 * seed) for seed in range(2)] + [row("state_td", s, 0.5 + 0.1 * s) for s in range(2)]
    rows += [row("grpo", 0, 0.6, penalty=0.01), row("grpo", 100, 0.5, penalty=0.01), row("grpo", 100, 0.4)]
    table = report.training(rows, "household", ["grpo", "state_td", "oracle"])
    assert [(r["arm"], r["run"]) for r in table] == [("grpo", True), ("grpo", True), ("state_td", True), ("oracle", False)]
    assert "difference" not in table[1] and table[1]["best"]  # the tuning seed chose the penalty of 0.01
    assert table[0]["difference"][0] == pytest.approx([-0.2]) and table[2]["seeds"] == 2
    lines = report.training_lines(table)
    assert "not run" in lines[-1] and len({line.count("|") for line in lines}) == 1


def test_rows_after_a_kill(tmp_path):
    path = tmp_path / "train.jsonl"
    bench.append(path, row("grpo", 0, 0.5))
    with path.open("a") as file:
        file.write('{"setting": "hou')
    bench.append(path, row("grpo", 1, 0.5))
    assert [one["seed"] for one in bench.lines(path)] == [0, 1]


def test_cells_that_have_a_row_are_not_trained_again(tmp_path, monkeypatch):
    trained = []

    def done(cell, out, policy):
        trained.append(cell)
        return {**vars(cell), "success": 0.5, "seconds": 1.0}

    monkeypatch.setattr(bench, "warm_start", lambda out, name: out)
    monkeypatch.setattr(bench, "train_cell", done)
    cells = [Cell("household", "grpo", 0.0, 1e-3, seed) for seed in range(2)]
    bench.train_all(cells[:1], tmp_path, math.inf)
    bench.train_all(cells, tmp_path, math.inf)
    assert trained == cells
    bench.train_all([Cell("household", "grpo", 0.0, 1e-3, 7)], tmp_path, 0.0)  # the time is up
    assert len(trained) == 2


def test_the_noise_of_a_measured_advantage_by_hand():
    one = {"reward": 0.0, "before": [0.0, 1.0], "after": [1.0, 1.0, 1.0, 0.0]}
    assert credit_efficiency._advantage(one) == 0.25
    assert credit_efficiency._noise(one) == pytest.approx(0.5 / 2 + 0.25 / 4)
    assert credit_efficiency._advantage({"reward": 1.0, "before": [0.0, 1.0], "after": []}) == 0.5


@pytest.mark.slow
def test_measured_turns_of_a_small_policy_and_the_page(tmp_path, monkeypatch):
    small = {"sft_episodes": 16, "turn_tokens": 6, "env_options": {}, "horizon": (4,), "valid_split": "", "test_split": ""}
    setting = bench.Setting("household", {"env": "rlvr/GuessNumber-v0", **small}, bench._RUNS | {"steps": 1}, tasks=4)
    rl = {**setting.rl, "tasks_per_step": 2, "group_size": 2}
    monkeypatch.setattr(bench, "SETTINGS", {"guess": bench.replace(setting, rl=rl)})
    monkeypatch.setattr(credit_efficiency, "ROUND", 2)
    monkeypatch.setattr(credit_efficiency, "TURNS", 3)
    credit_efficiency.measure(tmp_path, "guess", 5, 2, math.inf)
    rows = [json.loads(line) for line in credit_efficiency.files(tmp_path, "guess")[1].read_text().splitlines()]
    assert len(rows) == 6 and {one["round"] for one in rows} == {0, 1}
    assert all(len(one["before"]) == 2 and len(one["after"]) in (0, 2) for one in rows)
    bench.train_all([Cell("guess", arm, 0.0, 1e-3, 0) for arm in ("grpo", "oracle-4")], tmp_path, math.inf)
    plain, oracle = bench.lines(tmp_path / "train.jsonl")
    assert plain["branch_tokens"] == 0 < oracle["branch_tokens"] < oracle["tokens"]
    assert not (tmp_path / "guess-grpo-0-0.001-0" / "episodes.jsonl").exists()
    page = tmp_path / "page"
    report.write(tmp_path, page)
    first = page.with_suffix(".md").read_text()
    report.write(tmp_path, page)
    assert page.with_suffix(".md").read_text() == first and "not run" in first and "| grpo |" in first
    assert page.with_suffix(".svg").read_text().startswith("<?xml")
