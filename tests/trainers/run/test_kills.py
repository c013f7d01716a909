"""Runs that are killed: `benchmarks/kills.py` kills many; here are a few of its kills, and what they may leave."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from agentgym.errors import BadConfig
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config, read_run
from agentgym.trainers.run.record import Record

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))  # at the end: some have names that others have too
import kills
import kills_parts
import kills_victims

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")


def killed(command, victim):
    """Start a run, kill one of its processes in the SFT warm start, and return its words, its exit code and what it left."""
    with kills.started(command) as run:
        assert kills.wait_for(run, "SFT warm start", 0, "0", pause=0.02), run.words.read_text()
        os.kill(run.process.pid if victim == "launcher" else run.main(victim), signal.SIGKILL)
        code = run.process.wait(timeout=400)
        return run.words.read_text(), code, run.left_over()


@pytest.mark.long
def test_of_two_processes_none_outlives_another(tmp_path):
    out = kills.recipe(tmp_path, "run", processes=2)
    words, code, left = killed(kills.take_up(out), "1")
    assert code == 128 + signal.SIGKILL and not left
    assert "error: process 2 of 2 was ended by signal 9" in words and f"agentgym train --resume {out}" in words
    assert "Traceback" not in words
    assert kills.take_up(out) == ["train", "--resume", str(out)]  # before the first checkpoint: from the beginning


@pytest.mark.slow
def test_no_process_outlives_the_launcher(tmp_path):
    out = kills.recipe(tmp_path, "run", processes=2)
    assert not killed(kills.take_up(out), "launcher")[2]
    assert not killed(kills.take_up(out), "launcher")[2]  # taken up again, too


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_runs_end_as_if_nothing_had_happened(processes, tmp_path):
    tally = kills.killed_training(tmp_path, 20 // processes, seed=1, processes=processes)
    assert len(tally.kills) == 20 // processes and not tally.wrong


@pytest.mark.slow
def test_killed_evaluations_hold_every_episode_once(tmp_path):
    tally = kills.killed_evaluations(tmp_path, 10, seed=1)
    assert len(tally.kills) == 10 and not tally.wrong


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    out = kills.recipe(folder, "run", processes=1)
    path = folder / "run.toml"
    smaller = "policy_width = 64\npolicy_layers = 1\npolicy_episodes = 20\nvocabulary = 300\n"
    path.write_text(
        path.read_text().replace("steps = 6", "steps = 1").replace("sft_episodes = 40", "sft_episodes = 4") + smaller
    )
    train(read_config(path))
    return out


def test_what_a_kill_left_half_written_is_gone_after_the_next_sitting(ended, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(ended, out)
    names = {path.name for path in out.rglob("*")}
    newest = max((out / "checkpoints").iterdir())
    shutil.copytree(newest, newest.with_name(".step-00000099"))  # cut off while it was written
    shutil.copytree(newest, newest.with_name(".old-step-00000001"))  # and while it was deleted
    (out / ".reference").mkdir()
    (out / "summary.json.part").write_text("{")
    resume(out)
    assert {path.name for path in out.rglob("*")} == names
    assert kills.differences(out, ended) == []


def test_a_checkpoint_that_is_written_again_stands_whole_at_every_moment(ended, tmp_path, monkeypatch):
    """The last step's is written again at the end: were it deleted bit by bit, what is left could pass for the newest."""
    out = tmp_path / "run"
    shutil.copytree(ended, out)
    seen = []
    remove = shutil.rmtree

    def watched(path, *rest, **options):
        seen.append(Path(path).name)
        remove(path, *rest, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    resume(out)
    assert seen and not [name for name in seen if name.startswith("step-")]


def test_two_processes_do_not_write_into_one_run(ended, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(ended, out)
    record, _ = Record.resumed(out, read_run(out))
    with pytest.raises(BadConfig, match="another training run is writing to"):
        resume(out)
    record.close()
    assert resume(out)["steps"] == 1


def _written(folder, episodes, steps=(1, 2), weights=b"w"):
    """Write what a run leaves: episodes as (group, attempt, ids of its turn)."""
    (folder / "checkpoints/step-00000002").mkdir(parents=True)
    (folder / "checkpoints/step-00000002/model.safetensors").write_bytes(weights)
    turns = [
        {"group_id": g, "attempt": n, "reward": 0.0, "error": "", "turns": [{"output_ids": ids}]} for g, n, ids in episodes
    ]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(episode) + "\n" for episode in turns))
    rows = [{"step": step, "phase": "rl", "seconds": 1.0} for step in steps]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_what_a_kill_cost_is_counted(tmp_path):
    """By hand: of three episodes one is lost, one stands there twice, and the third took another course."""
    whole = _written(tmp_path / "whole", [("1/a", 0, [1]), ("1/a", 1, [2]), ("2/b", 0, [3])])
    same = _written(tmp_path / "same", [("1/a", 1, [2]), ("1/a", 0, [1]), ("2/b", 0, [3])])
    part = kills_victims.Part(tmp_path, None)
    row = kills_parts.Row("client")
    kills_parts.note(row, part, same, whole)
    assert (row.lost, row.twice, row.counts, row.tokens, row.weights, row.wrong) == (0, 0, 1, 1, 1, [])
    bad = _written(tmp_path / "bad", [("1/a", 0, [9]), ("1/a", 0, [9]), ("2/b", 0, [3])], weights=b"v")
    kills_parts.note(row, part, bad, whole)
    assert (row.lost, row.twice, row.counts, row.tokens, row.weights, len(row.wrong)) == (1, 1, 1, 1, 1, 3)
    assert kills_parts.step_seconds(whole) == 1.0
    (whole / "metrics.jsonl").write_text('{"step": 1, "phase": "rl"}\n{"step"')  # while the run writes
    assert kills_parts.steps(whole) == [1]


@pytest.mark.slow  # test_mix.py kills a run in every push
def test_a_client_that_is_killed_ends_with_the_tokens_and_weights_of_one_that_is_not(tmp_path):
    row = kills_parts.table("client", tmp_path, times=1, seed=2)
    assert (len(row.moments), row.lost, row.twice, row.counts, row.tokens, row.weights) == (1, 0, 0, 1, 1, 1), row.wrong
    assert not row.wrong
