"""What infrastructure errors cost a run: demonstrations that are lost, and steps of which nothing came back."""

import json
import os

import pytest

import agentgym
from agentgym.cli import main
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import BadConfig, Fault
from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.run.sft import FIRST_TASK, too_many_lost


class Shaky(GuessNumber):
    """Its machinery fails on the tasks that AGENTGYM_TEST_SHAKY names by their numbers."""

    def act(self, action):
        number = int(self.task.id.rsplit("/", 1)[1])
        if number in json.loads(os.environ.get("AGENTGYM_TEST_SHAKY", "[]")):
            raise Fault(f"lost the connection of {number}", reason="timeout")
        return super().act(action)


agentgym.register("me/Shaky-v0", Shaky, horizon=3)


def small(out, **changes):
    options = {
        "env": f"{__name__}:me/Shaky-v0", "out": str(out), "steps": 0, "tasks_per_step": 2, "group_size": 2,
        "turn_tokens": 4, "eval_every": 0, "test_tasks": 0, "threads": 1, "select": "keep", "checkpoint_every": 50,
    }  # fmt: skip
    return TrainConfig(**{**options, **changes})


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_lost_demonstration_is_counted_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AGENTGYM_TEST_SHAKY", str([FIRST_TASK + 55]))
    config = small(tmp_path / "run", sft_episodes=60, sft_batch=5)
    (tmp_path / "own.toml").write_text(to_toml(config))
    assert main(["train", str(tmp_path / "own.toml")]) == 0
    assert "1 demonstrations lost to infrastructure errors" in capsys.readouterr().out
    assert [row["demonstrations_lost"] for row in rows(tmp_path / "run")] == [1]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["demonstrations_lost"], summary["episodes"]) == (1, 59)


def test_more_than_two_in_a_hundred_stop_the_run_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SHAKY", str([FIRST_TASK + 1, FIRST_TASK + 7]))
    with pytest.raises(BadConfig, match=r"2 of 10 demonstrations were lost.*more than 2%.*lost the connection of 10+7"):
        train(small(tmp_path / "run", sft_episodes=60, sft_batch=5))


def test_how_many_are_too_many():
    long, short = TrainConfig(sft_episodes=1000), TrainConfig(sft_episodes=24)
    assert not too_many_lost(1, 8, long) and too_many_lost(2, 8, long)
    assert not too_many_lost(10, 500, long) and too_many_lost(11, 500, long)
    assert too_many_lost(1, 8, short) and not too_many_lost(0, 8, short)


def test_a_step_of_faults_alone_is_passed_over_and_several_end_the_run_which_goes_on_with_other_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SHAKY", str([2, 3, 6, 7, 8, 9, 10, 11]))  # step 2, and steps 4 to 6
    with pytest.raises(
        BadConfig, match=r"every episode of the last 3 steps ended in an infrastructure error.*connection of 10.*--resume"
    ):
        train(small(tmp_path / "run", steps=8))
    assert [(row["step"], row["faults"]) for row in rows(tmp_path / "run")] == [
        (1, 0),
        (2, 4),
        (3, 0),
        (4, 4),
        (5, 4),
        (6, 4),
    ]
    assert "loss" not in rows(tmp_path / "run")[1]
    resume(tmp_path / "run")
    assert [(row["step"], row["faults"]) for row in rows(tmp_path / "run")][6:] == [(7, 0), (8, 0)]


def test_demonstrations_do_not_thin_out_the_share_of_faults(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SHAKY", str([1]))
    summary = train(small(tmp_path / "run", sft_episodes=60, sft_batch=20, steps=2, checkpoint_every=1))
    assert (summary["episodes"], summary["fault_share"], summary["comparable"]) == (60 + 8, 2 / 8, False)
    assert resume(tmp_path / "run", steps=4)["fault_share"] == 2 / 16
