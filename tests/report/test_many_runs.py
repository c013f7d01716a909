"""One picture of many runs: which runs belong to a line, its numbers by hand, and the command."""

import json
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.errors import BadConfig
from agentgym.report.many_runs import curves, draw


def run(place: Path, name: str, values: dict[int, float | None], **settings: object) -> str:
    folder = place / name
    folder.mkdir()
    top = {"seed": settings.pop("seed", 0), "out": str(folder)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**top, **settings}.items() if key != "credit"]
    lines += ["[credit]", f"name = {json.dumps(settings.get('credit', 'grpo'))}"]
    (folder / "config.toml").write_text("\n".join(lines))
    rows = [{"step": 0, "phase": "sft", "loss": 1.0}]
    rows += [{"step": step, "phase": "rl", "success_valid": value} for step, value in values.items()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    return [
        run(tmp_path, "a0", {1: 0.2, 2: None, 3: 0.4}, seed=0),
        run(tmp_path, "a1", {1: 0.4, 2: 0.5, 3: 0.8, 4: 0.9}, seed=1),
        run(tmp_path, "b0", {1: 0.1, 3: 0.3}, credit="gigpo"),
    ]


def test_runs_that_differ_in_their_seed_are_one_line(runs: list[str]):
    gigpo, grpo = curves(runs, "success_valid")
    assert (gigpo.label, gigpo.runs, gigpo.mean) == ("credit.name gigpo", 1, (0.1, 0.3))
    assert (grpo.label, grpo.runs, grpo.steps) == ("credit.name grpo", 2, (1, 3))  # steps that both measured
    assert grpo.mean == pytest.approx((0.3, 0.6)) and grpo.low == (0.2, 0.4) and grpo.high == (0.4, 0.8)


def test_the_mean_is_of_smoothed_runs(runs: list[str]):
    (one,) = curves(runs[1:2], "success_valid", smooth=3)
    assert one.label == "all runs" and one.mean == pytest.approx((0.4, 1.7 / 3, 2.2 / 3, 0.9))


def test_lines_by_a_setting_of_ones_choice(tmp_path: Path):
    made = [run(tmp_path, f"{lr}{credit}", {1: lr}, lr=lr, credit=credit) for lr in (0.1, 0.3) for credit in ("a", "b")]
    assert [(c.label, c.runs) for c in curves(made, "success_valid", by=("lr",))] == [("lr 0.1", 2), ("lr 0.3", 2)]
    assert len(curves(made, "success_valid")) == 4


def test_what_cannot_be_drawn_is_named(runs: list[str], tmp_path: Path):
    with pytest.raises(BadConfig, match="success_vald"):
        curves(runs, "success_vald")
    with pytest.raises(BadConfig, match=r"setting of these runs: .*credit\.nam"):
        curves(runs, "success_valid", by=("credit.nam",))
    with pytest.raises(BadConfig, match="at no common step"):
        curves([runs[0], run(tmp_path, "c", {7: 0.1}, seed=2)], "success_valid")


def test_the_command_writes_the_picture_and_says_where_each_line_ends(runs: list[str], tmp_path: Path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "many.png"
    assert main(["curves", *runs, "--out", str(out)]) == 0
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    text = capsys.readouterr().out
    assert "credit.name grpo: 60.0 % (40.0 to 80.0) at step 3, 2 runs" in text and str(out) in text
    assert main(["curves", *runs, "--out", str(tmp_path / "no" / "x.png")]) == 2
    assert main(["curves", *runs, "--smooth", "0"]) == 2


def test_a_setting_with_dollars_is_not_mathematics(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    made = [run(tmp_path, "x", {1: 0.5}, credit="a$b_{$"), run(tmp_path, "y", {1: 0.5}, credit="\x1b[31m")]
    found = curves(made, "success_valid")
    assert "\x1b" not in "".join(curve.label for curve in found)
    assert draw(found, "success_valid", tmp_path / "x.png").stat().st_size > 1000
