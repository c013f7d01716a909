"""Several processes take the step of one, whoever of them has nothing to train."""

import json
import math
from collections import Counter

import pytest
import torch
from several import run_two
from small_runs import curve, policy
from two_processes import CASES, update
from two_trainers import FirstPays

from agentgym import read_episodes
from agentgym.trainers.samplers.interface import TaskSource


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two real processes make of the stored episodes: (metrics, weights) by case."""
    out = tmp_path_factory.mktemp("two") / "found"
    run_two("two_processes.py", out)
    return json.loads(out.read_text()), torch.load(f"{out}.pt", weights_only=True)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_step_of_one_though_one_has_only_uniform_groups(two, case):
    metrics, after, before = update(case)
    step = after - before
    assert float(step.norm()) > 1e-3
    if case != "corrected":  # its mini-batches are dealt by each process
        exact = 1e-7 if "masters" not in case else 1e-3  # in bf16 micro-batches of other rows round otherwise
        torch.testing.assert_close(two[1][case] - before, step, rtol=10 * exact, atol=exact * float(step.norm()))
        critic = ("value_loss", "value_explained") if case == "critic" else ()
        for name in ("loss", "entropy", "logp", "mismatch_mean", "mismatch_q999", *critic):
            assert two[0][case][name] == pytest.approx(metrics[name], rel=1e-5), name


def test_two_processes_are_one_sample(two):
    found = two[0]["apart"]
    # 1,501 tokens: two thirds of the 99.9 % quantiles of the parts would say 1.5
    assert found["mismatch_mean"] == pytest.approx(4 / 1501)
    assert found["mismatch_q999"] == pytest.approx(0.5)  # 0.999 * 1500 = 1498.5: halfway from 0 to 1
    weights = [1.0] * 1499 + [math.e, math.exp(-3)]
    assert found["mismatch_ess"] == pytest.approx(sum(weights) ** 2 / (1501 * sum(w * w for w in weights)))


def test_a_process_that_comes_late_joins_the_run_and_each_goes_through_the_file_without_a_gap(tmp_path):
    run_two("two_trainers.py", tmp_path / "run")
    played = read_episodes(tmp_path / "run" / "episodes.jsonl")  # the first process's
    # a step: four draws, of which two are kept; two more, of which one is kept; one more, which the first process plays
    expected = TaskSource(FirstPays(), seed=0).at([0, 2, 4, 6, 7, 9, 11, 13], "train")
    assert [episode.task_id for episode in played[::2]] == [draw.task.id for draw in expected]


def test_two_processes_play_ahead_what_each_would_play(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_LEVEL", "1")
    run_two("two_trainers.py", tmp_path / "run")
    played = read_episodes(tmp_path / "run" / "episodes.jsonl")
    # both steps draw four at once; then step 1 two more and one more, and after its update step 2 the same
    expected = TaskSource(FirstPays(), seed=0).at([0, 2, 8, 10, 4, 6, 11, 13], "train")
    assert [episode.task_id for episode in played[::2]] == [draw.task.id for draw in expected]
    assert [row["versions_behind_most"] for row in curve(tmp_path / "run")] == [0, 1]


def test_a_slow_process_takes_fewer_groups_of_one_queue_and_none_is_played_twice(tmp_path):
    run_two("two_queues.py", tmp_path / "run", policy(tmp_path / "policy"))
    played = [(tmp_path / f"run.{rank}").read_text().split() for rank in range(2)]
    assert len(played[0]) < len(played[1])  # half of 16 groups is what an even share would be
    counted = Counter([*played[0], *played[1]])
    assert counted == {task: 2 for task in counted} and len(counted) == 16
    episodes = [episode.task_id for episode in read_episodes(tmp_path / "run" / "episodes.jsonl")]
    assert sorted(episodes) == sorted(played[0])


def test_each_process_goes_on_with_the_state_of_its_own_stages(tmp_path):
    for name in ("whole", "run", "run+"):
        run_two("two_states.py", tmp_path / name)
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    stages = torch.load(newest / "trainer.pt", weights_only=True)["stages"]
    # three steps of one group each, of two episodes: 3 * 1 in the first process, 3 * (1 + 10) in the second
    assert [of_process["credit"] for of_process in stages] == [{"counted": 3}, {"counted": 33}]
    assert [of_process["select"] for of_process in stages] == [{"counted": 3}, {"counted": 33}]
    assert [of_process["reward paid_by_process"] for of_process in stages] == [{"counted": 6}, {"counted": 66}]
