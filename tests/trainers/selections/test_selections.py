"""Selections: which groups are trained on, and what is put into them."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import small_runs
from named_groups import ALONE, group, names
from small_runs import curve, episodes, small

import agentgym
from agentgym.trainers import train
from agentgym.trainers.selections import mixing
from agentgym.trainers.selections.interface import SELECTIONS, variance


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return small_runs.taught(tmp_path_factory.mktemp("taught"))


def test_variance_keeps_the_share_whose_rewards_vary_most_in_their_order():
    groups = [
        group("a", 0, 0, 0, 1),
        group("b", 0, 0, 1, 1),
        group("c", 1, 1, 1, 1),
        group("d", 0, 1, 1, 1),
        group("e", 1, 0),
    ]
    assert names(variance(groups, share=0.4)) == ["b", "e"]  # 1/4 each; a and d 3/16, c 0
    assert names(variance(groups, share=0.6)) == ["a", "b", "e"]
    assert names(variance(groups, share=1.0)) == ["a", "b", "d", "e"]
    assert variance([], share=1.0) == [] and variance(groups, share=0.0) == []


def test_variance_plays_more_tasks_than_it_trains_on(taught, tmp_path):
    options = {"oversample": 2.0, "share": 0.5}
    train(small(tmp_path / "run", taught, select="variance", select_options=options, steps=1, tasks_per_step=3))
    assert len({row["group_id"] for row in episodes(tmp_path / "run")}) == 6
    assert curve(tmp_path / "run")[0]["groups_dropped"] >= 3


@agentgym.select("all_but_one")
def all_but_one(groups, *, oversample=1.0, rounds=1):
    return groups[1:]


@pytest.mark.parametrize(("factor", "rounds", "played"), [(1.0, 1, 3), (2.0, 1, 6), (1.5, 1, 5), (1.0, 3, 3 + 1 + 1)])
def test_oversample_and_rounds_of_ones_own_selection_are_read_by_the_loop(taught, tmp_path, factor, rounds, played):
    options = {"oversample": factor, "rounds": rounds}
    train(small(tmp_path / "run", taught, select="all_but_one", select_options=options, steps=1))
    assert len({row["group_id"] for row in episodes(tmp_path / "run")}) == played


def test_replay_puts_the_newest_success_at_a_task_into_a_group_that_failed_as_a_whole():
    state = {}

    def replayed(*groups, **options):
        return mixing.replay(
            groups, number=options.get("number", 1), capacity=options.get("capacity", 9), state=state, run=ALONE
        )

    assert names(replayed(group("a", 0, 1, 1), group("b", 0, 0))) == ["a"]
    assert replayed(group("b", 0, 0, step=2)) == []  # another task's success is no help
    (mixed,) = replayed(group("a", 0, 0, 0, step=3))
    assert [(e.attempt, e.group_id, e.reward) for e in mixed] == [(n, "3/a", 0) for n in range(3)] + [(3, "3/a", 1)]
    assert mixed[3].turns[0].logprobs == [-0.5, -1] and list(mixed[3].turns[0].prompt_ids) == [1, 2]  # as it was sampled
    replayed(group("a", 1, 0, step=4))
    assert [e.turns[0].logprobs[1] for e in replayed(group("a", 0, 0, step=5))[0]] == [-5, -5, -4]
    assert replayed(group("a", 1, 1, step=6)) == []  # nothing to learn, and no failure: but what is kept is newer
    assert [e.turns[0].logprobs[1] for e in replayed(group("a", 0, 0, step=7))[0]] == [-7, -7, -6]
    assert json.loads(json.dumps(state)) == state
    for n in range(20):
        replayed(group(f"t{n}", 1, 0), group(f"u{n}", 1, 1, 0), capacity=7, number=2)
    task_ids = [json.loads(key)[2] for key in state["episodes"]]
    assert task_ids == ["u17", "t18", "u18", "t19", "u19"][1:] and sum(map(len, state["episodes"].values())) <= 7


def test_replay_in_a_run_trains_on_the_log_probabilities_of_the_past(taught, tmp_path, monkeypatch):
    mixed = []
    joined = mixing.joined

    def noted(group, added):
        mixed.extend((group, episode) for episode in added)
        return joined(group, added)

    monkeypatch.setattr(mixing, "joined", noted)
    options = {"group_size": 2, "steps": 8, "tasks_per_step": 6, "lr": 3e-3, "temperature": 1.2}
    train(small(tmp_path / "run", taught, select="replay", **options))
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    assert mixed
    for own, episode in mixed:
        assert not any(one.success for one in own) and episode.success and episode.task_id == own.task_id
        past = [e for e in played if e.task_id == own.task_id and e.success and e.group_id != own[0].group_id]
        assert any([t.logprobs for t in e.turns] == [t.logprobs for t in episode.turns] for e in past)
    assert all(np.isfinite(row.get("loss", 0.0)) for row in curve(tmp_path / "run"))


@pytest.mark.parametrize("env", ["small/File-v0", "small/Blocking-v0"])
def test_demonstrations_go_into_groups_without_success_with_the_trainers_own_scores(taught, tmp_path, env, monkeypatch):
    seen = []
    dropped = mixing.drop
    monkeypatch.setattr(mixing, "drop", lambda groups: seen.append(groups) or dropped(groups))
    changes = {
        "select": "demonstrations",
        "select_options": {"number": 2},
        "steps": 1,
        "tasks_per_step": 6,
        "temperature": 1.2,
    }
    train(small(tmp_path / "run", taught, env=f"small_envs:{env}", **changes))
    row, (groups,) = curve(tmp_path / "run")[0], seen
    assert {len(group) for group in groups} == {3, 5}
    for own in groups:
        added = own.episodes[3:]
        assert bool(added) == (not any(e.success for e in own.episodes[:3]))
        assert [e.attempt for e in own] == list(range(len(own))) and len({e.group_id for e in own}) == 1
        for episode in added:
            assert episode.success and episode.turns[-1].observation != ""
            for turn in episode.turns:
                assert len(turn.logprobs) == len(turn.output_ids) and max(turn.logprobs) < 0
            assert any(turn.extra["advantage"] > 0 for turn in episode.turns)
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    assert len(played) == 18 and row["success_train"] == pytest.approx(sum(e.success for e in played) / 18)
    assert row["mismatch_kl"] < 1e-6  # what stands in for the expert's log-probabilities is the trainer's own


def test_demonstrations_are_paid_by_the_reward_stages(monkeypatch):
    demonstration = group("a", 1)

    async def played(jobs):
        assert [(job.task, job.attempt, job.group_id, job.env, job.horizon) for job in jobs] == [
            ("task", 2, "1/a", "env", None)
        ]
        return list(demonstration)

    async def pay(paid, rewards, *, step, run):
        for episode in paid:
            episode.reward -= 0.25

    def score(rows):
        return {"logprobs": [np.full(len(row), -0.125, np.float32) for row in rows]}

    monkeypatch.setattr(mixing, "pay", pay)
    run = SimpleNamespace(
        rollouts=SimpleNamespace(envs={"env": 0}), demonstrations=SimpleNamespace(play=played), rewards=[],
        learner=SimpleNamespace(score=score),
        task=lambda episode: "task", config=SimpleNamespace(seed=0),
    )  # fmt: skip
    (mixed,) = asyncio.run(mixing.demonstrations([group("a", 0, 0)], number=1, step=0, run=run))
    assert [e.reward for e in mixed] == [0, 0, 0.75] and mixed[2].turns[0].logprobs == [-0.125, -0.125]


def test_every_selection_is_on_the_page():
    page = (Path(__file__).resolve().parents[3] / "docs" / "seams" / "selection.md").read_text()
    assert all(f"| `{name}` |" in page for name in SELECTIONS.table)
