"""The state of a curriculum as metrics: what each sampler reports, and what stands in the rows of a run."""

import math

import pytest
import small_runs
from small_envs import Generated, Small
from small_runs import curve, small

import agentgym
from agentgym.trainers import train
from agentgym.trainers.run.metrics import curriculum
from agentgym.trainers.samplers.interface import SAMPLERS, GroupOutcome, TaskSource


def source(name="a", env=Generated):
    return TaskSource(env(), 0, "train", name)


def made(name, *sources, **options):
    return SAMPLERS.resolve(name, options)(list(sources))


def seen(env, difficulty, successes, label="", task="t"):
    return GroupOutcome(env, task, difficulty, (), (True,) * successes + (False,) * (4 - successes), label)


def rounded(values):
    return {name: None if value != value else value for name, value in curriculum(values).items()}


def test_names_have_the_environment_where_there_are_several():
    assert curriculum({"horizon": 10, "back": {"a": 2}, "difficulty": {"a": 1, "b": 3}}) == {
        "curriculum/horizon": 10, "curriculum/back": 2, "curriculum/difficulty/a": 1, "curriculum/difficulty/b": 3,
    }  # fmt: skip
    assert curriculum(made("uniform", source()).measures(3)) == {}


def test_the_window_tells_difficulty_and_the_groups_that_decide_its_next_move():
    found = made("window", source(), source("b"), source("file", Small), low=0.3, high=0.7, groups=3, start=1)
    assert rounded(found.measures(0)) == {
        "curriculum/difficulty/a": 1, "curriculum/difficulty/b": 1, "curriculum/success/a": None,
        "curriculum/success/b": None, "curriculum/groups/a": 0, "curriculum/groups/b": 0,
    }  # fmt: skip
    found.update([seen("a", 1, 4), seen("a", 1, 2)])
    state = rounded(found.measures(1))
    assert state["curriculum/success/a"] == 0.75 and state["curriculum/groups/a"] == 2
    found.update([seen("a", 1, 4)])
    assert rounded(found.measures(2))["curriculum/difficulty/a"] == 2


def test_the_range_of_difficulties_has_both_ends():
    found = made("difficulty_range", source(), groups=1, span=2, high=0.5)
    for top in range(2):
        found.update([seen("a", top, 4)])
    assert {name: value for name, value in curriculum(found.measures(2)).items() if "difficulty" in name} == {
        "curriculum/difficulty_low": 1, "curriculum/difficulty_high": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "step", "expected"),
    [
        ("growing_horizon", {"least": 4, "most": 10, "every": 5}, 7, {"horizon": 8}),
        ("questa", {"level": 0.5, "every": 10}, 12, {"hint_level": 0.25}),
        ("questa", {"level": 0.5, "every": 10}, 20, {"hint_level": 0.0}),
        ("starts", {"back": 3}, 0, {"back": 3, "success": None, "groups": 0}),
        ("prioritized", {}, 0, {"tasks_seen": 0, "expected_success": None}),
        ("hard_attempts", {}, 0, {"tasks_seen": 0, "expected_success": None}),
        ("rising_temperature", {}, 0, {"tasks_seen": 0, "expected_success": None, "tasks_raised": 0}),
    ],
)
def test_each_curriculum_reports_where_it_stands(name, options, step, expected):
    found = made(name, source(env=Small), **options)
    assert rounded(found.measures(step)) == {f"curriculum/{key}": value for key, value in expected.items()}


def test_samplers_of_files_tell_what_they_expect():
    found = made("rising_temperature", source(env=Small))
    found.update([seen("a", 0, 4, task="file-0"), seen("a", 0, 0, task="file-1")])  # (4 + 1) / 6 and 1 / 6
    state = curriculum(found.measures(0))
    assert state["curriculum/tasks_seen"] == 2 and state["curriculum/tasks_raised"] == 1
    assert math.isclose(state["curriculum/expected_success"], 0.5)


def test_started_and_whole_episodes_of_a_run_are_two_numbers(tmp_path):
    taught = small_runs.taught(tmp_path)
    options = {"sampler": "starts", "sampler_options": {"whole": 0.5, "groups": 1000}, "tasks_per_step": 6, "lr_warmup": 0}
    train(small(tmp_path / "run", taught, **options))
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    for row in curve(tmp_path / "run"):
        mine = [e for e in played if e.group_id.startswith(f"{row['step']}/")]
        begun = [e for e in mine if len(e.turns[0].messages) == 0 or e.turns[0].observation in ("Higher.", "Lower.")]
        assert {e.group_id for e in begun} == {e.group_id for e in mine if e.started} and row["started"] == len(begun) > 0
        others = [e for e in mine if e not in begun]
        assert row["success_started"] == pytest.approx(sum(e.success for e in begun) / len(begun))
        assert row["success_train"] == pytest.approx(sum(e.success for e in others) / len(others))
        assert row["curriculum/back"] == 1 and row["lr"] == pytest.approx(small(tmp_path, taught).lr)
    assert {e.labels.get("start") for e in played} == {None, "demonstration"}


def test_stages_of_the_horizon_are_a_curriculum_too(tmp_path):
    model = small_runs.policy(tmp_path / "policy")
    train(small(tmp_path / "run", model, horizon=(1, 2, 3), horizon_steps=1))
    assert [row["curriculum/horizon"] for row in curve(tmp_path / "run")] == [1, 2, 3]
