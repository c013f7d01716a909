"""DAgger: what the expert would do where the policy went, by hand, in whole runs, and against plain imitation."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
import small_runs
from guesses import made, played
from several import run_two
from small_runs import curve, episodes, small
from tables import Table, success, trained

import agentgym
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.branched import graft
from agentgym.rollout.play import Job
from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.data.trees import weigh_shared_turns
from agentgym.trainers.run.preflight import check_run
from agentgym.trainers.selections.interface import SELECTIONS
from agentgym.trainers.selections.mixing import stand_in


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return small_runs.taught(tmp_path_factory.mktemp("taught"))


@agentgym.select("expert_alone", requires=("expert",), worth=True)
async def expert_alone(groups, *, run):
    """In place of each episode, the expert's own at its task: plain imitation."""
    jobs = [Job(run.task(e), e.attempt, 7, e.group_id, next(iter(run.rollouts.envs))) for group in groups for e in group]
    demonstrations = await run.demonstrations.play(jobs)
    for turn in (turn for episode in demonstrations for turn in episode.turns):
        turn.extra["worth"] = 1.0
    stand_in(demonstrations, run)
    return agentgym.groups(demonstrations)


LEARNER = SimpleNamespace(score=lambda rows: {"logprobs": [np.full(len(row), -0.5, np.float32) for row in rows]})


def labelled(groups, run, state, step=0, **options):
    stage = SELECTIONS.resolve("dagger", options)
    stage.state = state
    return asyncio.run(stage(groups, step=step, run=run))


def test_the_expert_is_asked_where_the_policy_went():
    run = made(learner=LEARNER)
    before, state = played(run), {}  # guesses 1, 2 and the secret, of numbers up to 100
    found = labelled(before, run, state)
    assert [len(group) for group in found] == [len(group) for group in before]
    for was, now in zip((e for group in before for e in group), (e for group in found for e in group), strict=True):
        # 1 to 100, then 2 to 100, then 3 to 100
        assert [turn.action for turn in now.turns] == ["50", "51", "51"] and [t.action for t in was.turns][:2] == ["1", "2"]
        assert [list(turn.prompt_ids) for turn in now.turns] == [list(turn.prompt_ids) for turn in was.turns]
        tokenizer = run.rollouts.tokenizer
        for turn in now.turns:
            assert turn.output_ids == [*tokenizer.encode(turn.action, add_special_tokens=False), tokenizer.eos_token_id]
            assert turn.logprobs == [-0.5] * len(turn.output_ids) and turn.extra["worth"] == 1.0
        assert now.reward == 0.0 and was.success
    assert [Episode.from_json(text).turns[1].action for text in state["labels"]] == ["51"] * 4


def test_labels_of_earlier_steps_are_drawn_and_the_oldest_forgotten():
    run, state = made(learner=LEARNER), {}
    assert sum(map(len, labelled(played(run), run, state, earlier=2.0))) == 4  # there is nothing earlier yet
    second = labelled(played(run), run, state, step=1, earlier=2.0, capacity=6)
    assert sum(map(len, second)) == 4 + 4 and len(state["labels"]) == 6
    assert all([e.attempt for e in group] == list(range(len(group))) for group in second)
    third = labelled(played(run), run, state, step=2, earlier=0.5, capacity=6, own=True)
    assert sum(map(len, third)) == 2 * 4 + 2
    assert [["worth" in e.turns[0].extra for e in group] for group in third] == [[False] * 2 + [True] * 3] * 2


def test_labels_beside_the_policys_own_episodes_are_attempts_of_their_own():
    """Else a turn that a branch shares with its parent would be taken for one of the parent's labels."""
    run, before = made(learner=LEARNER), []
    for group in played(run):
        first, second = group
        graft(second, first, 1)
        before.append(group)
    for group in weigh_shared_turns(labelled(before, run, {}, own=True), "once"):
        first, second, *labels = group
        assert len({episode.attempt for episode in group}) == len(group) == 3
        assert [turn.extra.get("train", True) for turn in second.turns] == [False, True, True, True]
        assert all(turn.extra.get("train", True) for label in labels for turn in label.turns)


def test_the_second_call_of_a_reply_has_no_label_and_a_label_knows_the_prompt_without_a_hint():
    run = made(learner=LEARNER)
    before = played(run)
    for episode in (episode for group in before for episode in group):
        first, second, third = episode.turns
        second.prompt_ids = [*first.prompt_ids, *first.output_ids]  # the environment's answer to the first came later
        episode.hint = agentgym.Hint(0.5, "it is 10")
        third.plain_ids = list(third.prompt_ids)[2:]
        first.plain_ids = list(first.prompt_ids)[2:]
    for episode in (episode for group in labelled(before, run, {}) for episode in group):
        assert [turn.action for turn in episode.turns] == ["50", "51"]  # of the first and the third
        assert all(list(turn.plain_ids) == list(turn.prompt_ids)[2:] for turn in episode.turns)


def test_what_cannot_be_repeated_has_no_label():
    run, state = made("me/Forgetful-v0", learner=LEARNER), {}
    assert labelled(played(run), run, state) == [] and state["labels"] == []


@pytest.mark.long
def test_a_run_with_it_goes_on_to_the_last_digit(taught, tmp_path):
    def config(name, steps):
        options = {"select": "dagger", "credit": "off_policy", "credit_options": {}, "select_options": {"own": True}}
        return small(tmp_path / name, taught, steps=steps, minibatches=1, **options)

    train(config("whole", 3))
    train(config("cut", 2))
    resume(tmp_path / "cut", steps=3)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "cut") == episodes(tmp_path / "whole")
    assert all(np.isfinite(row["loss"]) and row["groups_dropped"] == 0 for row in curve(tmp_path / "whole"))


@pytest.mark.long
def test_the_expert_is_asked_in_worker_processes_too(taught, tmp_path):
    options = {"select": "dagger", "credit": "off_policy", "credit_options": {}, "steps": 1}
    train(small(tmp_path / "run", taught, env="small_envs:small/Blocking-v0", minibatches=1, **options))
    (row,) = curve(tmp_path / "run")
    assert row["groups_dropped"] == 0 and row["loss"] < 0  # every group has labels, at a ratio of 1 and a worth of 1


@pytest.mark.long
def test_two_processes_take_the_step_of_one(taught, tmp_path):
    def config(name, **changes):
        options = {"select": "dagger", "credit": "off_policy", "credit_options": {}, "steps": 1, "tasks_per_step": 4}
        return small(tmp_path / name, taught, minibatches=1, **options, **changes)

    train(config("one"))
    (tmp_path / "run.toml").write_text(to_toml(config("two", processes=2)))
    run_two("from_recipe.py", tmp_path / "run.toml")
    one, two = (curve(tmp_path / name)[0] for name in ("one", "two"))
    for name in ("loss", "grad_norm", "success_train"):
        assert two[name] == pytest.approx(one[name], rel=1e-4), name


@pytest.mark.long
def test_dagger_beats_plain_imitation_with_no_more_labels():
    reached = {}
    for select, steps in (("expert_alone", 14), ("dagger", 10)):
        table = Table()
        _, first = trained(table, "expert_alone", steps=2, lr=2.0)
        options = {"earlier": 0.0} if select == "dagger" else {}
        _, labels = trained(table, select, steps=steps, lr=2.0, seed=50, select_options=options)
        reached[select] = success(table), first + labels
    (plain, labels_plain), (better, labels_dagger) = reached["expert_alone"], reached["dagger"]
    assert labels_dagger <= labels_plain and better > plain + 0.06, reached


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"credit": "grpo", "credit_options": {}},
            "credit 'grpo' does not read it: use --credit off_policy --credit.base",
        ),
        ({"env": "rlvr/TicTacToe-v0"}, "has the roles X, O"),
        ({"env": "small_envs:small/Silent-v0"}, "needs an environment with an expert"),
        ({"select": "drop"}, "adds none: use --select dagger, --select self_imitation or --select memorize, or another"),
        ({"select_options": {"earlier": -1}}, "earlier of select 'dagger' is -1"),
        ({"sampler": "starts"}, "its episodes begin inside a demonstration"),
        ({"credit_options": {"base": "turn_gae"}}, "needs values"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_loaded(tmp_path, changes, message):
    options = {"env": "small_envs:small/File-v0", "select": "dagger", "credit": "off_policy", **changes}
    with pytest.raises(BadConfig, match=message):
        check_run(TrainConfig(out=str(tmp_path / "run"), **options))
