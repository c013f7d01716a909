"""Learning curves drawn by matplotlib."""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.cli.train import _report
from agentgym.report.plots import learning_curve, running_mean

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_a_curve_is_a_picture_of_the_promised_size(run_folder: Path):
    path = learning_curve(run_folder)
    assert path == run_folder / "learning_curve.png"
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1200, 675)


def test_other_numbers_make_another_picture(run_folder: Path, tmp_path: Path):
    before = learning_curve(run_folder).read_bytes()
    changed = tmp_path / run_folder.name
    shutil.copytree(run_folder, changed)
    (changed / "summary.json").write_text(json.dumps({"success_before": 0.5, "credit": "gigpo"}))
    assert learning_curve(changed).read_bytes() != before


def test_a_run_that_has_just_begun_has_a_picture_too(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text("")
    assert learning_curve(tmp_path).stat().st_size > 1000


def test_a_title_with_dollars_is_not_mathematics(tmp_path: Path):
    folder = tmp_path / "a$b_{$"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"step": 1, "phase": "rl", "success_train": 0.5, "success_valid": null}\n')
    assert learning_curve(folder).exists()


def test_the_running_mean_is_centred():
    assert running_mean([1.0, 2.0, 6.0, 0.0, 1.0], 3) == [1.0, 3.0, pytest.approx(8 / 3), pytest.approx(7 / 3), 1.0]


def test_reports_import_without_matplotlib():
    code = "import sys, agentgym.report.html, agentgym.report.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_whose_curve_cannot_be_drawn_is_complete_and_has_its_page(
    run_folder: Path, tmp_path: Path, monkeypatch, capsys
):
    """Where vLLM is installed without the rest, hours of training must not end in an error for want of a picture."""
    folder = tmp_path / run_folder.name
    shutil.copytree(run_folder, folder)
    for name in ("matplotlib", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    _report(Console(width=300), folder)
    assert (
        "the run is complete, but its page could not be written: learning curves need matplotlib" in capsys.readouterr().out
    )
    assert list(folder.glob("*.html"))
