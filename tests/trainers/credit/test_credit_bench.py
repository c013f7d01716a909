"""The bench of credit: its intervals and tables by hand, its file after a kill, and one round of it in earnest."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import credit as bench
import credit_efficiency
import credit_report as report
import credit_settings
import credit_tokens
import overlap_staleness
from credit import Cell

import agentgym
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.samplers.interface import TaskSource


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
    assert report.in_words((values, mean, half)) == "+20.0 (-4.8 to +44.8; needs 46 seeds)"
    assert report.in_words(report.paired({0: 0.5}, {0: 0.4})) == "+10.0 (one seed)"


def test_the_table_by_hand():
    rows = [row("grpo", seed, 0.4 + 0.1 * seed) for seed in range(2)] + [row("state_td", s, 0.5 + 0.1 * s) for s in range(2)]
    rows += [row("grpo", 0, 0.6, penalty=0.01), row("grpo", 100, 0.5, penalty=0.01), row("grpo", 100, 0.4)]
    table = report.training(rows, "household", ["grpo", "state_td", "oracle"])
    assert [(r["arm"], r["run"]) for r in table] == [("grpo", True), ("grpo", True), ("state_td", True), ("oracle", False)]
    assert "difference" not in table[1] and table[1]["best"]  # the tuning seed chose the penalty of 0.01
    assert table[0]["difference"][0] == pytest.approx([-0.2]) and table[2]["seeds"] == 2
    lines = report.training_lines(table)
    assert lines[-2:] == ["", "Not run: `oracle`."] and len({line.count("|") for line in lines[:-2]}) == 1


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


def test_tuned_values_and_pairs_by_hand(tmp_path):
    rows = [row("grpo", 100, 0.5), row("grpo", 100, 0.45, lr=2e-3), row("state_td", 100, 0.4, penalty=0.01)]
    rows[1]["train"] = [0.1, *5 * [0.6]]  # (0.45 + 0.6) / 2 against 0.5: what tuning runs end with counts as much
    rows += [row("grpo", seed, 0.4, lr=2e-3) for seed in range(2)] + [row("grpo", 0, 0.9, lr=2e-3, level=1)]
    rows += [row("state_td", seed, 0.5 + 0.1 * seed, penalty=0.01) for seed in range(2)]
    for one in rows:
        bench.append(tmp_path / "train.jsonl", one)
    assert bench.tuned(tmp_path, "household", "grpo") == ("grpo", 0.0, 2e-3)
    with pytest.raises(SystemExit, match="gigpo has no run of a seed from 100 on"):
        bench.tuned(tmp_path, "household", "gigpo")
    table = report.training(rows, "household", ["grpo", "state_td"])
    assert [r["success"] for r in table] == pytest.approx([0.4, 0.55])  # the run at a level is in no comparison of credits
    pair = report.pair_lines(rows, "household", ["grpo", "state_td"])[-1]
    assert pair.startswith(
        "| `state_td` - `grpo` | 2 | +15.0 (-48.5 to +78.5; needs "
    )  # 0.1, 0.2: 12.706 * 0.0707 / sqrt(2)
    assert report.tuning_lines(rows, "household", ["grpo"])[2:] == [
        "| `grpo` | 0 | 0.001 | 1 | 50.0 % | 50.0 % |  |",
        "| `grpo` | 0 | 0.002 | 1 | 45.0 % | 60.0 % | yes |",
    ]


def test_runs_at_a_level_by_hand(tmp_path):
    rows = [row("gigpo", 100, 0.5)]
    for level in (0, 2):
        old = {"versions_behind": 1.5, "mismatch_ess": 0.75} if level else {"mismatch_ess": 1.0}
        rows += [row("gigpo", seed, 0.5 - 0.1 * seed * level, level=level, **old) for seed in range(3)]
    for one in [*rows, row("grpo", 0, 0.1, level=2), row("gigpo", 0, 0.1, lr=2e-3, level=2)]:
        bench.append(tmp_path / "train.jsonl", one)
    runs = overlap_staleness.found(tmp_path, "gigpo", 1e-3)
    assert {level: sorted(by) for level, by in runs.items()} == {0: [0, 1, 2], 2: [0, 1, 2]}
    # 0, -0.2, -0.4: half of the interval 4.303 * 0.2 / sqrt(3)
    assert overlap_staleness.table(runs, 0.4)[-1].startswith(
        "| 2 | 3 | 1.50 | 0.7500 | 40.0 % | 30.0 % | -20.0 (-69.7 to +29.7) |"
    )
    assert [cell.name for cell in overlap_staleness.cells("gigpo", 1e-3, [4], [0, 1])] == [
        "household-gigpo-0-0.001-4",
        "household-gigpo-0-0.001-4-k1",
    ]
    overlap_staleness.draw(runs, 0.4, tmp_path / "levels.svg")
    assert (tmp_path / "levels.svg").read_text().startswith("<?xml")


def test_a_page_keeps_what_was_measured_elsewhere(tmp_path):
    page = tmp_path / "page.md"
    table = "| grpo | 0.050 (0.010 to 0.150) | 1 |\n| state_td | 0.300 (0.200 to 0.500) | 6.00 (2.00 to 9.00) |"
    ladder = "### a ladder, whose advantages are known\n\n| unchanged |"
    page.write_text(
        f"text\n<!-- tables -->\n\n### household: efficiency\n\n{table}\n\n{ladder}\n\n<!-- end of the tables -->\nmore\n"
    )
    for seed in (0, 1):
        bench.append(tmp_path / "train.jsonl", row("grpo", seed, 0.5))
    report.write(tmp_path, tmp_path / "page", tmp_path / "kept.jsonl")
    text = page.read_text()
    assert table in text and ladder in text and text.startswith("text\n") and text.endswith("\nmore\n")
    assert "| `grpo` | 0 | 0.001 | 2 | 50.0 % | (base) |" in text
    assert report.efficiency_of(table.split("\n"))[1] == {"credit": "state_td", "efficiency": (0.3, 0.2, 0.5)}
    report.write(tmp_path, tmp_path / "page", tmp_path / "kept.jsonl")
    assert page.read_text() == text


def test_tokens_to_the_final_success_of_grpo_by_hand():
    plain = {"train": [0.1, 0.1, 0.1, 0.1, 0.1, 0.6, 0.6], "tokens_by_step": 7 * [100]}
    tokens, success = credit_tokens.curve([plain])  # means of five steps
    assert tokens.tolist() == [500, 600, 700] and success == pytest.approx([0.1, 0.2, 0.3])
    quick = {"train": [0.1, 0.1, 0.1, 0.6, 0.6, 0.6], "tokens_by_step": 6 * [80]}  # 0.3 at 400, 0.4 at 480
    assert credit_tokens.ratio([quick], [plain]) == pytest.approx(400 / 700)
    late = {"train": [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5], "tokens_by_step": 7 * [50]}  # 0.1, 0.2, 0.3: at the last step
    assert credit_tokens.ratio([late], [plain]) == pytest.approx(350 / 700)
    between = {"train": [0.0, 0.0, 0.0, 0.0, 1.0, 1.0], "tokens_by_step": 6 * [100]}  # 0.2 at 500, 0.4 at 600
    assert credit_tokens.ratio([between], [plain]) == pytest.approx(550 / 700)
    never = {**plain, "train": 7 * [0.1]}
    assert credit_tokens.ratio([never], [plain]) == math.inf
    same = credit_tokens.compared({0: quick, 1: quick, 5: quick}, {0: plain, 1: plain, 2: plain})
    assert same and same["pairs"] == 2 and same["interval"] == pytest.approx((400 / 700, 400 / 700))
    mixed = credit_tokens.compared({0: quick, 1: never}, {0: plain, 1: plain})
    assert mixed and credit_tokens.in_words(mixed) == "not reached (0.57 to not reached)"
    assert credit_tokens.compared({0: quick}, {1: plain}) is None


def test_the_table_of_tokens_says_what_was_not_run():
    rows = [row("grpo", seed, 0.5, tokens_by_step=6 * [100]) for seed in range(2)]
    rows += [row("branch-td", seed, 0.5, tokens_by_step=6 * [50]) for seed in range(2)] + [row("gigpo", 0, 0.5)]
    lines = credit_tokens.tokens_lines(rows, "household", ["grpo", "gigpo", "branch-td", "oracle"])
    assert lines[2:] == [
        "| `branch-td` | 2 | 50.0 % | 50.0 % | 0 k | 1 k | 0.50 (0.50 to 0.50) |",
        "",
        "Not run: `gigpo`, `oracle`.",  # gigpo's row is an old one, without its tokens by step
    ]
    assert credit_tokens.tokens_lines(rows[2:], "household", ["grpo", "branch-td"]) == []


def test_runs_from_different_warm_starts_are_no_pair_and_are_both_kept(tmp_path, monkeypatch):
    rows = [row("grpo", 0, 0.5, warm="a"), row("state_td", 0, 0.6, warm="b"), row("state_td", 0, 0.7, warm="a")]
    table = report.training(rows, "household", ["grpo", "state_td"])
    assert table[1]["difference"][0] == pytest.approx([0.2]) and table[1]["seeds"] == 2
    trained = []

    def done(cell, out, policy):
        trained.append(cell)
        return {**vars(cell), "success": 0.5, "seconds": 1.0, "warm": "b"}

    monkeypatch.setattr(bench, "warm_start", lambda out, name: out)
    monkeypatch.setattr(bench, "digest", lambda policy: "b")
    monkeypatch.setattr(bench, "train_cell", done)
    for one in rows:
        bench.append(tmp_path / "kept.jsonl", one)
    cells = [Cell("household", arm, 0.0, 1e-3, 0) for arm in ("grpo", "state_td")]
    bench.train_all(cells, tmp_path, math.inf, tmp_path / "kept.jsonl")
    assert trained == cells[:1]  # GRPO's kept run began from other weights
    assert len(report.together(tmp_path / "kept.jsonl", tmp_path / "train.jsonl")) == 4
    assert len(report.together(tmp_path / "kept.jsonl", tmp_path / "train.jsonl")) == 4
    assert len(bench.lines(tmp_path / "kept.jsonl")) == 4


def test_tokens_of_each_step_count_a_shared_turn_once_and_continuations():
    branch = Episode("e", "t", "2/t", 0, attempt=1, forks=[[0, 1, 0]])
    whole = Episode("e", "t", "2/t", 0)
    for number in range(2):
        whole.add(Turn("o", output_ids=[1, 2, 3]))
        branch.add(Turn("o", output_ids=[1, 2] if number else [1, 2, 3]))
    assert bench.tokens_by_step([{"step": 1, "branch_tokens": 7.0}, {"step": 2}], [whole, branch]) == [7, 8]
    assert bench.tokens_by_step([{"step": 2, "prover_tokens": 5.0}], [whole]) == [11]


def test_the_noise_of_a_measured_advantage_by_hand():
    one = {"reward": 0.0, "before": [0.0, 1.0], "after": [1.0, 1.0, 1.0, 0.0]}
    assert credit_efficiency._advantage(one) == 0.25
    assert credit_efficiency._noise(one) == pytest.approx(0.5 / 2 + 0.25 / 4)
    assert credit_efficiency._advantage({"reward": 1.0, "before": [0.0, 1.0], "after": []}) == 0.5


def test_the_first_tasks_come_again_and_again_also_after_a_resume():
    env = agentgym.make("rlvr/FrozenLake-v0", split="train")
    first = credit_settings.First([TaskSource(env, seed=0)], tasks=3)
    wanted = [env.numbered(number).id for number in range(3)]
    assert [draw.task.id for draw in first.draw(0, 4)] == [*wanted, wanted[0]]
    other = credit_settings.First([TaskSource(env, seed=0)], tasks=3)
    other.load_state_dict(first.state_dict())
    assert [draw.task.id for draw in other.draw(1, 3)] == [*wanted[1:], wanted[0]]


@pytest.mark.slow
def test_measured_turns_of_a_small_policy_and_the_page(tmp_path, monkeypatch):
    small = {"sft_episodes": 16, "turn_tokens": 6, "env_options": {}, "horizon": (4,), "valid_split": "", "test_split": ""}
    rl = credit_settings.RUNS | {"steps": 1, "tasks_per_step": 2, "group_size": 2}
    setting = bench.Setting("household", {"env": "rlvr/GuessNumber-v0", **small}, rl, tasks=4)
    monkeypatch.setattr(bench, "SETTINGS", {"guess": setting})
    monkeypatch.setattr(credit_efficiency, "ROUND", 2)
    monkeypatch.setattr(credit_efficiency, "TURNS", 3)
    credit_efficiency.measure(tmp_path, "guess", 5, 2, math.inf)
    rows = [json.loads(line) for line in credit_efficiency.files(tmp_path, "guess")[1].read_text().splitlines()]
    assert len(rows) == 6 and {one["round"] for one in rows} == {0, 1}
    assert all(len(one["before"]) == 2 and len(one["after"]) in (0, 2) for one in rows)
    bench.train_all([Cell("guess", arm, 0.0, 1e-3, 0) for arm in ("grpo", "oracle-4")], tmp_path, math.inf)
    plain, oracle = bench.lines(tmp_path / "train.jsonl")
    assert all(sum(row["tokens_by_step"]) == row["tokens"] and row["warm"] for row in (plain, oracle))
    assert plain["branch_tokens"] == 0 < oracle["branch_tokens"] < oracle["tokens"]
    assert not (tmp_path / "guess-grpo-0-0.001-0" / "episodes.jsonl").exists()
    page = tmp_path / "page"
    report.write(tmp_path, page, tmp_path / "kept.jsonl")
    first = page.with_suffix(".md").read_text()
    report.write(tmp_path, page, tmp_path / "kept.jsonl")
    assert page.with_suffix(".md").read_text() == first and "Not run: " in first and "| grpo |" in first
    assert page.with_suffix(".svg").read_text().startswith("<?xml")
