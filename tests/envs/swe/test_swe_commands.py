"""agentgym swe predictions and score."""

import functools
import json

import pytest
import swe_files

import agentgym
from agentgym.cli import main
from agentgym.envs.swe import SWE
from agentgym.rollout.collect import collect


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(swe_files.make(tmp_path))


@pytest.fixture
def run(data, tmp_path):
    collect(agentgym.OracleAgent(), functools.partial(SWE, data=data), tasks=2, out=tmp_path / "run" / "episodes.jsonl")
    return data


@pytest.mark.long
def test_predictions_of_a_run_are_written_and_scored(run, tmp_path, capsys):
    assert main(["swe", "predictions", "run", "--out", "preds.jsonl"]) == 0
    assert "preds.jsonl: 2 predictions, 0 of them empty" in capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "preds.jsonl").read_text().splitlines()]
    assert all(line["model_name_or_path"] == "run" and line["model_patch"].startswith("--- a/purse.py\n") for line in lines)
    lines[1]["model_patch"] = lines[1]["model_patch"].replace("\n+", "\n+ ", 1)
    (tmp_path / "preds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["swe", "score", "preds.jsonl", "--data", run]) == 0
    out = capsys.readouterr().out
    assert f"resolved     {lines[0]['instance_id']}  1 of 1 tests of the issue pass; 7 of 7" in out
    assert "1 of 2 predictions resolve their task; 3 tasks in all." in out
    report = json.loads((tmp_path / "preds.report.json").read_text())
    assert report["resolved_ids"] == [lines[0]["instance_id"]] and report["schema_version"] == 2


def test_a_patch_with_half_a_character_does_not_apply(data, tmp_path, capsys):
    (tmp_path / "preds.jsonl").write_text('{"instance_id": "purse-discount", "model_patch": "\\ud800"}\n')
    assert main(["swe", "score", "preds.jsonl", "--data", data]) == 0
    assert "The patch does not apply." in capsys.readouterr().out


@pytest.mark.long
def test_mistakes_are_explained(run, tmp_path, capsys):
    assert main(["swe", "score", "none.jsonl"]) == 2
    (tmp_path / "preds.jsonl").write_text('{"instance_id": "purse-disount", "model_patch": "x"}\n')
    assert main(["swe", "score", "preds.jsonl", "--data", run]) == 2
    assert "Did you mean 'purse-discount'?" in capsys.readouterr().err
    assert main(["swe", "predictions", "run", "--attempt", "3"]) == 2
    assert main(["swe", "scor"]) == 2
    assert "Did you mean 'score'?" in capsys.readouterr().err
    assert main(["swe", "score", "preds.jsonl", "--data", "none.jsonl"]) == 2
