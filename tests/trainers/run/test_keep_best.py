"""The best checkpoint and the manifest of a training run."""

import json
from pathlib import Path

import pytest
from whole_runs import small

from agentgym.core import provenance
from agentgym.errors import BadConfig
from agentgym.trainers import resume, train
from agentgym.trainers.run.preflight import model_folder
from agentgym.trainers.run.record import Record


def saved(text):
    def save(folder: Path):
        folder.mkdir()
        (folder / "config.json").write_text(text)

    return save


def best(record):
    return record.best_step(), (record.best / "config.json").read_text()


@pytest.fixture
def record(tmp_path):
    made = Record(tmp_path / "run", small(tmp_path / "run"))
    yield made
    made.close()


def test_the_highest_success_is_kept_and_of_equal_ones_the_earlier(record):
    for step, success in ((1, float("nan")), (2, 0.25), (3, 0.5), (4, 0.5), (5, 0.25)):
        record.keep_best(saved(f"step {step}"), step, success)
    assert best(record) == ({"step": 3, "success_valid": 0.5}, "step 3")
    assert [path.name for path in record.checkpoints.iterdir()] == ["best"]


def test_the_first_is_kept_though_it_is_zero(record):
    record.keep_best(saved("step 1"), 1, 0.0)
    assert best(record) == ({"step": 1, "success_valid": 0.0}, "step 1")


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.parametrize("rename", [1, 2])
@pytest.mark.parametrize("first", [False, True])
def test_a_kill_between_leaves_a_whole_one_or_none(record, monkeypatch, rename, first):
    """Killed at each rename of the swap; then tidied, as the next sitting does."""
    if not first:
        record.keep_best(saved("old"), 1, 0.25)
    real, calls = Path.rename, []

    def rename_or_die(self, target):
        calls.append(target)
        if len(calls) == rename:
            raise Killed
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_or_die)
        try:
            record.keep_best(saved("new"), 2, 0.5)
        except Killed:
            record.tidy()
    best_step = record.best_step()
    assert (best_step is None) if first and rename == 1 else best_step is not None
    if best_step:
        assert (record.best / "config.json").read_text() == ("new" if best_step["step"] == 2 else "old")
    assert {path.name for path in record.checkpoints.iterdir()} <= {"best"}


def test_a_run_keeps_its_best_over_resuming(tmp_path):
    settings = {"sft_episodes": 4, "steps": 2, "eval_every": 1, "test_tasks": 0, "keep_best": True}
    summary = train(small(tmp_path / "run", **settings))
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    measured = [row["success_valid"] for row in rows if row["phase"] == "rl"]
    assert summary["best_success_valid"] == max(measured)
    assert summary["best_step"] == 1 + measured.index(max(measured))
    path = tmp_path / "run/checkpoints/best/best.json"
    path.write_text(json.dumps({"step": 1, "success_valid": 2.0}))  # what nothing to come can beat
    assert resume(tmp_path / "run", steps=3)["best_success_valid"] == 2.0
    assert model_folder(str(tmp_path / "run")).endswith("step-00000005")  # the newest
    assert model_folder(str(tmp_path / "run/checkpoints/best")).endswith("best")
    sessions = json.loads((tmp_path / "run/manifest.json").read_text())["sessions"]
    assert [one["position"] for one in sessions] == [0, 4]
    assert {"started", "command", "agentgym", "commit", "python", "libraries", "hardware", "processes"} <= set(sessions[0])


@pytest.mark.parametrize("changes", [{"eval_every": 0}, {"eval_tasks": 0}, {"eval_every": 5, "steps": 4}])
def test_a_best_that_is_never_measured_is_refused(tmp_path, changes):
    with pytest.raises(BadConfig, match="none is the best"):
        small(tmp_path, keep_best=True, **changes)


def test_the_command_line_hides_keys():
    typed = [str(Path("x") / "__main__.py"), "train", "--engine.key", "sk-1", "--api-key=sk-2", "--turn-tokens", "9"]
    assert provenance.command_line(typed) == [
        *("agentgym", "train", "--engine.key", "***", "--api-key=***", "--turn-tokens", "9")
    ]
