"""Training with hints: rows and ratios by hand, the stages that play with them, what runs make of them, what is refused."""

import asyncio
import dataclasses
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_envs import Small
from small_runs import TINY, curve, episodes, small

import agentgym
from agentgym import BadConfig, Hint
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.evaluate.summary import summarize
from agentgym.report.html import write_report
from agentgym.report.run_folder import open_run
from agentgym.rollout.draw import Draw, drawn
from agentgym.trainers import resume, train
from agentgym.trainers.config.train_config import newest_checkpoint
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import behaviours, build, mismatches
from agentgym.trainers.data.stored import Filter
from agentgym.trainers.losses.policy import means, policy_loss
from agentgym.trainers.model.policy import init_policy
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.run import preflight
from agentgym.trainers.run.metrics import merged, played
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.samplers.interface import TaskSource
from agentgym.trainers.samplers.questa import QuestA
from agentgym.trainers.selections import guidance
from agentgym.trainers.selections.interface import SELECTIONS

TOLD = Hint(0.5, "it is 3")


class Untold(Small):
    """Has neither an oracle nor an expert, and no hint of its own."""

    oracle, expert, hint = agentgym.TextEnv.oracle, agentgym.TextEnv.expert, agentgym.TextEnv.hint


agentgym.register("small/Untold-v0", Untold, horizon=4)


def guided(hint=TOLD, success=True, attempt=0, group="1/a"):
    """Prompt 1 2 with the hint 8 9 behind it, output 3 4; then a bridge 5 and output 6."""
    turns = [
        Turn("o", prompt_ids=[1, 2, 8, 9], output_ids=[3, 4], logprobs=[-0.1, -0.2], plain_ids=[1, 2]),
        Turn("o", prompt_ids=[1, 2, 8, 9, 3, 4, 5], output_ids=[6], logprobs=[-0.3], plain_ids=[1, 2, 3, 4, 5]),
    ]
    return Episode("e", "a", group, 0, attempt, turns, success=success, reward=float(success), hint=hint, reason="success")


def plain(success, attempt=0, group="1/a", env="e"):
    turns = [Turn("o", prompt_ids=[1, 2], output_ids=[7], logprobs=[-1.0], reward=float(success))]
    reason = "success" if success else "failure"
    return Episode(env, "a", group, 0, attempt, turns, success=success, reward=float(success), reason=reason)


# Rows and ratios


def test_rows_without_the_hint_keep_the_log_probabilities_sampled_with_it():
    (row,) = build([guided()], [[0.5, -1.0]])
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6] and row.hint_removed
    np.testing.assert_array_equal(row.logprobs, np.float32([np.nan, np.nan, -0.1, -0.2, np.nan, -0.3]))
    assert row.advantages.tolist() == [0, 0, 0.5, 0.5, 0, -1] and row.turns.tolist() == [-1, -1, 0, 0, -1, 1]
    (row,) = build([guided(dataclasses.replace(TOLD, in_training=True))], [[0.5, -1.0]])
    assert row.ids.tolist() == [1, 2, 8, 9, 3, 4, 5, 6] and not row.hint_removed


def batch_of(*made):
    rows = build(made, [[1.0] * len(episode.turns) for episode in made])
    (batch,) = pack(rows, token_weights(rows), 1000)
    return rows, batch


def scores(values):
    new = torch.tensor(values, requires_grad=True)
    return new, Scores(new, torch.ones(len(values)))


def test_the_ratio_is_that_of_the_plain_prompt_to_the_one_with_the_hint():
    _, batch = batch_of(guided(), plain(True))  # rows of 6 and 3 tokens, the longest first
    assert batch.hint_removed.tolist() == [True, True, True, False]
    new, made = scores([-0.1 + math.log(0.5), -0.2 + math.log(0.9), -0.3 + math.log(1.1), -1.0])
    total, sums = policy_loss(made, batch)
    # A = 1: ratios 0.5, 0.9, 1.1 (all below 1 + 0.2) and 1, each a quarter
    assert float(total.detach()) == pytest.approx(-(0.5 + 0.9 + 1.1 + 1.0) / 4)
    total.backward()
    assert new.grad.tolist() == pytest.approx([-0.5 / 4, -0.9 / 4, -1.1 / 4, -1 / 4])
    assert means(sums)["hint_ratio"] == pytest.approx((0.5 + 0.9 + 1.1) / 3)
    assert means(sums)["approx_kl"] == pytest.approx(0.0, abs=1e-6)  # of the token without a hint alone


def test_an_engine_that_differs_changes_nothing_about_that_ratio():
    _, batch = batch_of(guided(), plain(True))
    _, made = scores([-0.1 + math.log(0.5), -0.2 + math.log(0.9), -0.3 + math.log(1.1), -1.0])
    old = torch.tensor([-5.0, -5.0, -5.0, -1.0 + math.log(1.5)])  # the trainer's, from the prompt without the hint
    total, sums = policy_loss(made, batch, old=old, correction=2.0)
    # the last token: ratio 1 / 1.5, weighed by trainer / engine = 1.5
    assert float(total.detach()) == pytest.approx(-(0.5 + 0.9 + 1.1 + 1.0) / 4)
    assert means(sums)["correction"] == pytest.approx((1 + 1 + 1 + 1.5) / 4)


def test_hinted_tokens_are_no_mismatch_of_engine_and_trainer():
    rows, _ = batch_of(guided(), plain(True))
    ours = [np.full(len(row), -0.75, dtype=np.float32) for row in rows]
    assert [np.allclose(b, o, equal_nan=True) for b, o in zip(behaviours(rows, ours), ours, strict=True)] == [False, True]
    np.testing.assert_array_equal(behaviours(rows, ours)[0], rows[0].logprobs)
    gaps = mismatches(rows, ours)
    assert np.isnan(gaps[:3]).all() and gaps[3] == pytest.approx(0.25)
    assert mismatches([], []).shape == (0,)


def test_rows_without_any_hint_have_nothing_of_hints():
    rows, batch = batch_of(plain(True), plain(False))
    assert batch.hint_removed is None and not any(row.hint_removed for row in rows)
    made = scores([-1.0, -1.0])[1]
    assert "hint_ratio" not in policy_loss(made, batch)[1]


# Who counts where


def test_metrics_show_hinted_episodes_apart():
    row = merged([played([plain(True), plain(False), guided(), guided(success=False)]), played([plain(False)])])
    assert row["success_train"] == pytest.approx(1 / 3) and row["success_hinted"] == 0.5 and row["hinted"] == 2
    assert row["reward"] == pytest.approx(1 / 3) and row["turns"] == 1 and row["faults"] == 0
    assert not {"hinted", "success_hinted"} & played([plain(True)]).keys()


def test_evaluations_and_stored_episodes_leave_them_out():
    assert summarize([guided(), plain(False)])["success"]["mean"] == 0 and summarize([guided()])["success"]["episodes"] == 0
    assert Filter().takes(plain(True)) and not Filter().takes(guided())


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.lists(st.booleans(), max_size=6))
def test_hinted_successes_never_move_a_success_rate(outcomes, hinted):
    base = [plain(outcome, n) for n, outcome in enumerate(outcomes)]
    mixed = [*base, *(guided(success=outcome, attempt=9 + n) for n, outcome in enumerate(hinted))]
    assert played(mixed)["success_train"] == played(base)["success_train"]
    assert agentgym.success(mixed, resamples=10) == agentgym.success(base, resamples=10)


# The stages


def fake_run(answer, **config):
    """Return a run that notes the jobs it is asked for and answers each as `answer(job)` says."""
    jobs = []

    async def play(agents, jobs_to_play, rank):
        jobs.append(list(jobs_to_play))
        return [answer(job) for job in jobs_to_play]

    rollouts = SimpleNamespace(agents=lambda temperature: {}, play=play)
    settings = SimpleNamespace(temperature=1.0, seed=0, **config)
    run = SimpleNamespace(rollouts=rollouts, config=settings, rewards=[], replayed=[], task=lambda e: e.task_id)
    run.env_name = lambda episode: "env"
    return run, jobs


def select(name, groups, run, **options):
    return asyncio.run(SELECTIONS.resolve(name, options)(groups, step=4, run=run))


def group(*successes, id="1/a"):
    return Group("a", "agent", [plain(success, n, id) for n, success in enumerate(successes)])


def again(job, success=None):
    won = job.attempt % 2 == 0 if success is None else success
    return guided(job.hint, won, job.attempt, job.group_id)


def test_guide_plays_only_what_failed_as_a_whole_again():
    run, jobs = fake_run(again)
    mixed, failed, solved = group(True, False, id="1/a"), group(False, False, id="1/b"), group(True, True, id="1/c")
    found = select("guide", [mixed, failed, solved], run, level=0.5)
    assert [(job.group_id, job.attempt, job.hint) for job in jobs[0]] == [("1/b", 2, Hint(0.5)), ("1/b", 3, Hint(0.5))]
    assert found[0] is mixed and len(found) == 2  # all alike: nothing to learn from
    assert [(e.attempt, e.success, e.hint) for e in found[1]] == [(2, True, Hint(0.5)), (3, False, Hint(0.5))]
    assert [e.attempt for e in run.replayed] == [2, 3]
    (joined,) = select("guide", [failed], fake_run(again)[0], failed="join", attempts=1)
    assert [(e.attempt, e.hint is None) for e in joined] == [(0, True), (1, True), (2, False)]


def test_guide_without_faultless_attempts_keeps_the_failed_group_out():
    lost = dataclasses.replace(guided(), reason="crash", success=None)
    run, _ = fake_run(lambda job: lost)
    assert select("guide", [group(False, False)], run) == [] and len(run.replayed) == 2


def test_ghpo_raises_the_level_until_one_attempt_succeeds():
    run, jobs = fake_run(lambda job: again(job, job.hint.level > 0.4 and job.attempt % 2 == 0))
    (found,) = select("ghpo", [group(False, False)], run)
    assert [[job.hint for job in played] for played in jobs] == [
        [Hint(0.25, in_training=True)] * 2,
        [Hint(0.5, in_training=True)] * 2,
        [],
    ]
    assert [e.attempt for e in found] == [4, 5] and all(e.hint.in_training for e in found)
    run, jobs = fake_run(lambda job: again(job, success=False))
    assert select("ghpo", [group(False, False)], run, level=0.7, rise=0.3) == []
    assert [played[0].hint.level for played in jobs] == pytest.approx([0.3, 0.6, 0.7])
    numbers = [job.attempt for played in jobs for job in played]
    assert numbers == list(range(2, 8))


def test_agent_rlvr_makes_guidance_from_each_failure():
    run, jobs = fake_run(again)
    failed = group(True, False, False)
    failed.episodes[1].final_observation = "2 tests failed\n"
    failed.episodes[2].turns[0].valid, failed.episodes[2].turns[0].error = False, "no such file"
    (found,) = select("agent_rlvr", [failed], run, level=0.25)
    texts = [job.hint.text for job in jobs[0]]
    assert texts == [
        "An earlier attempt failed (failure). It ended with:\n2 tests failed",
        "An earlier attempt failed (failure). It ended with:\nAn action was not accepted: no such file",
    ]
    assert [(e.attempt, e.hint is None) for e in found] == [(0, True), (1, True), (2, True), (3, False), (4, False)]
    assert guidance.failure_report(failed[1], 5) == "An earlier attempt failed (failure). It ended with:\nailed"
    assert guidance.failure_report(failed[1], 0) == "" and guidance.failure_report(plain(False), 100) == ""


def test_questa_shrinks_the_level_from_stage_to_stage():
    found = QuestA([TaskSource(Small(), 0, "train", "env")], level=0.5, every=10, stages=2)
    assert [found.level_at(step) for step in (0, 9, 10, 19, 20, 500)] == [0.5, 0.5, 0.25, 0.25, 0, 0]
    assert [draw.hint for draw in found.draw(12, 2)] == [Hint(0.25, in_training=True)] * 2
    assert [draw.hint for draw in found.draw(20, 2)] == [None] * 2
    sampler = QuestA([TaskSource(Small(), 0, "train", "env")], share=0.25)
    assert [draw.hint is not None for draw in sampler.draw(0, 8)] == [False, False, False, True] * 2
    other = QuestA([TaskSource(Small(), 0, "train", "env")], share=0.25)
    sampler.draw(0, 3)
    other.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert [(d.task.id, d.hint) for d in other.draw(0, 5)] == [(d.task.id, d.hint) for d in sampler.draw(0, 5)]


def test_some_of_a_groups_attempts_may_have_the_hint():
    task = Small().numbered(0, "train")
    settings = SimpleNamespace(group_size=4, seed=0)
    rollouts = SimpleNamespace(settings=settings, horizon=lambda env, step: None, group_id=lambda draw, prefix: "g")
    jobs = Rollouts.jobs(rollouts, Draw(task, env="env", hint=TOLD, hinted=1), 7, "1/", 0)
    bare = Rollouts.jobs(rollouts, Draw(task, env="env"), 7, "1/", 0)
    assert [job.hint for job in jobs] == [None, None, None, TOLD]
    assert [dataclasses.replace(job, hint=None) for job in jobs] == bare  # seeds and all


def test_a_draw_in_flight_keeps_its_hint_in_the_checkpoint():
    draw = Draw(Small().numbered(3, "train"), env="env", hint=TOLD, hinted=2)
    stored = json.loads(json.dumps(draw.plain()))
    assert drawn(draw.task, stored) == draw
    stored["hint"]["kept"] = stored["hint"].pop("in_training")  # the name in files before 2026-11-28
    assert drawn(draw.task, stored) == draw
    del stored["hint"], stored["hinted"]  # of a checkpoint from before there were hints
    assert drawn(draw.task, stored).hint is None


def test_draws_that_cannot_be_are_refused():
    task = Small().numbered(0, "train")
    with pytest.raises(BadConfig, match="has hinted 2 and no hint"):
        Draw(task, hinted=2)
    with pytest.raises(BadConfig, match="has a start and a hint"):
        Draw(task, hint=TOLD, start=SimpleNamespace())
    with pytest.raises(BadConfig, match="an evaluation is asked to play with hints"):
        asyncio.run(Rollouts.evaluate(SimpleNamespace(settings=SimpleNamespace(seed=0)), [Draw(task, hint=TOLD)], "eval/1/"))


# Runs


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return str(init_policy("small_envs:small/File-v0", tmp_path_factory.mktemp("policy"), size=TINY, episodes=20))


REFUSED = [
    ({"env": "test_guidance:small/Untold-v0", "select": "guide"}, r"'guide' plays with hints, and .* gives none: a hint"),
    ({"env": "rlvr/Wordle-v0", "select": "ghpo"}, "at level 0.75 it says nothing"),
    ({"env": "rlvr/TicTacToe-v0", "select": "guide"}, "it has the roles"),
    ({"sampler": "questa", "select": "guide"}, "both play with hints"),
    ({"sampler": "starts", "select": "agent_rlvr"}, "its episodes begin inside a demonstration"),
    ({"select": "guide", "select_options": {"level": 0}}, "level of select 'guide' is 0"),
    ({"select": "agent_rlvr", "select_options": {"kept": True}}, "Did you mean 'hint_in_training'"),
    ({"sampler": "questa", "sampler_options": {"level": 0.0}}, "no task has a hint"),
    ({"sampler": "questa", "sampler_options": {"shrink": 0.0}}, "only the first has a hint"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_would_do_nothing_is_refused_before_anything_is_loaded(policy, tmp_path, changes, message):
    with pytest.raises(BadConfig, match=message):
        preflight.check_run(small(tmp_path / "run", policy, **changes))


ARMS = {
    "guide": {"select": "guide", "select_options": {"level": 0.5, "failed": "join"}},
    "ghpo": {"select": "ghpo"},
    "agent_rlvr": {"select": "agent_rlvr"},
    "questa": {"sampler": "questa", "sampler_options": {"every": 2, "share": 0.5}},
}


@pytest.mark.long  # two runs and a half each
@pytest.mark.parametrize("arm", ARMS)
def test_a_resumed_run_with_hints_goes_on_to_the_last_digit(policy, tmp_path, arm):
    options = {**ARMS[arm], "steps": 3, "group_size": 2, "test_tasks": 2}
    train(small(tmp_path / "whole", policy, **options))
    train(small(tmp_path / "cut", policy, **{**options, "steps": 2}))
    resume(tmp_path / "cut", steps=3)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert [e for e in episodes(tmp_path / "cut") if e["group_id"][0].isdecimal()] == [
        e for e in episodes(tmp_path / "whole") if e["group_id"][0].isdecimal()
    ]
    assert newest_checkpoint(tmp_path / "whole")
    stored = agentgym.read_episodes(tmp_path / "whole" / "episodes.jsonl")
    hinted = [episode for episode in stored if episode.hint]
    assert hinted and all(e.group_id[0].isdecimal() for e in hinted)  # never in an evaluation
    assert all(turn.plain_ids for e in hinted for turn in e.turns if turn.output_ids)
    rows = [row for row in curve(tmp_path / "whole") if row.get("hinted")]
    assert sum(row["hinted"] for row in rows) == len(hinted)
    parts = {row.part for row in open_run(tmp_path / "whole").rows()}
    assert {"hinted", "eval"} <= parts
    assert "hint, of training alone" in write_report(tmp_path / "whole").read_text()
