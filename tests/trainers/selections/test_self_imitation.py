"""SPEAR: the policy's own good episodes with advantages computed anew, by hand, as a recipe, and what it is for."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named_groups import ALONE, group, names
from paid_tries import paid, tried
from small_runs import curve, episodes, small, taught
from tabular import Tabular

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.rewards.interface import Schedule, resolve_rewards
from agentgym.trainers.run.preflight import check_run
from agentgym.trainers.selections.interface import SELECTIONS

STAGES = Path(__file__).parents[3] / "examples" / "stages"


def stage(**options):
    chosen = SELECTIONS.resolve("self_imitation", options)
    return lambda *groups, step: chosen(list(groups), step=step, run=ALONE), chosen


def worths(found):
    return [[e.turns[0].extra.get("worth") for e in one] for one in found]


def test_good_episodes_come_back_while_they_are_better_than_the_median():
    select, chosen = stage(stale=2)
    first = select(group("a", 1, 0, 0, 0), group("b", 1, 1), step=0)  # means 0.25 and 1; b is no better than its group
    assert names(first) == ["a"] and worths(first) == [[None] * 4]
    assert [when for when, _ in chosen.state["kept"]] == [0]
    second = select(group("c", 0, 1, step=2), group("d", 0, 0, step=2), step=1)  # means 0.25, 1, 0.5, 0: median 0.375
    assert worths(second) == [[None, None, 0.625]]
    back = second[0][2]
    assert (back.group_id, back.attempt, back.task_id, back.reward) == ("2/c", 2, "a", 1)
    assert back.turns[0].logprobs == [-0.5, -1]  # those it was sampled with
    third = select(group("e", 0, 0, step=3), step=2)  # nothing differs: what is replayed stands in a group of zeros
    # of a and c, median of 0.25, 1, 0.5, 0, 0 is 0.25
    assert worths(third) == [[None, None, 0.75, 0.75]]
    fourth = select(group("f", 0, 1, step=4), step=3)  # a was kept two steps; c is left, and the median is 0.375
    assert worths(fourth) == [[None, None, 0.625]] and fourth[0][2].task_id == "c"
    assert select(group("g", 1, 1, step=5), step=9) == []


def test_which_are_drawn_depends_on_the_runs_seed():
    drawn = []
    for seed in range(6):
        chosen = SELECTIONS.resolve("self_imitation", {"number": 1})
        run = SimpleNamespace(gather=ALONE.gather, config=SimpleNamespace(seed=seed))
        chosen([group(name, 1, 0, 0, 0) for name in "abcdefgh"], step=0, run=run)
        drawn.append(chosen([group("i", 0, 1, step=2)], step=1, run=run)[0][2].task_id)
    assert len(set(drawn)) > 2, drawn


def test_what_is_no_better_than_the_median_stays_away():
    select, _ = stage()
    select(group("a", 1, 0), *(group(f"b{n}", 1, 1) for n in range(4)), step=0)  # the median is 1
    assert worths(select(group("c", 0, 1, step=2), step=1)) == [[None, None]]


def test_threshold_capacity_number_and_baseline():
    select, chosen = stage(threshold=0.6, capacity=2, number=1, baseline=3)
    select(group("a", 1, 0, 0, 0), group("b", 1, 0), group("c", 1, 0, 0), group("d", 1, 0, 0, 0, 0), step=0)
    assert [json.loads(text)["task_id"] for _, text in chosen.state["kept"]] == ["c", "d"]  # b: 1/2 is too little, a too old
    assert len(chosen.state["means"]) == 3 and json.loads(json.dumps(chosen.state))
    assert sum(map(len, select(group("e", 0, 1, step=2), step=1))) == 3


def test_off_policy_by_hand():
    select, _ = stage()
    select(group("a", 1, 0, 0, 0), step=0)
    (mixed,) = select(group("c", 0, 1, step=2), step=1)  # median 0.375
    groups = [Group("c", "agent", mixed.episodes)]

    def credited(step, **options):
        return [array.tolist() for array in resolve("off_policy", base="dr_grpo", **options)(groups, step=step)[0]]

    assert credited(0) == [[-0.5] * 2, [0.5] * 2, [0.625] * 2]  # the third is no part of what dr_grpo compares
    assert credited(0, weight=2.0)[2] == [1.25] * 2
    assert credited(0, warmup=100)[2] == [0.0] * 2
    assert credited(50, warmup=100)[2] == pytest.approx([0.3125] * 2)
    assert credited(25, warmup=100)[2] == pytest.approx([0.625 * (0.5 - 0.5 * math.cos(math.pi / 4))] * 2)
    assert credited(100, warmup=100)[2] == credited(1000, warmup=100)[2] == [0.625] * 2
    assert resolve("off_policy")([], step=0) == []


def test_tool_calls_by_hand():
    one = tried(True, "search[a]", "open[b]", "search[c]", "answer[d]")
    one.turns[1].valid = False
    found = [part["tool_calls"] for part in paid("tool_calls", one, tried(False, "x"), weight=0.5, most=4)]
    assert found == [0.375, 0.125]
    assert paid("tool_calls", one, tool="search", most=1, weight=0.5)[0]["tool_calls"] == 0.5
    assert paid("tool_calls", one, tool="find", weight=0.5)[0]["tool_calls"] == 0.0
    with pytest.raises(BadConfig, match="weight"):
        resolve_rewards(["tool_calls"], {"weight": 1.0})


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 20), st.floats(0.01, 0.99))
def test_no_number_of_calls_makes_a_failure_worth_a_success(valid, most, weight):
    made = tried(False, *("x" for _ in valid))
    for turn, accepted in zip(made.turns, valid, strict=True):
        turn.valid = accepted
    assert 0 <= paid("tool_calls", made, most=most, weight=weight)[0]["tool_calls"] < 1


def test_the_recipe_follows_the_published_cosine_and_is_refused_nothing(tmp_path):
    config = read_config(STAGES / "spear.toml")
    (reward,) = resolve_rewards(config.reward, config.reward_options)
    weight = reward.options["weight"]
    assert isinstance(weight, Schedule)
    for step in range(0, 220, 5):
        expected = 0.25 * (math.cos(math.pi * min(step, 200) / 200) + 1)
        assert weight.at(step) == pytest.approx(expected, abs=0.02)
    check_run(config.__class__(**{**vars(config), "out": str(tmp_path / "run")}))
    two = read_config(STAGES / "r1_searcher.toml")
    (first,) = resolve_rewards(two.reward, two.reward_options)
    assert [first.options["weight"].at(step) for step in (0, 39, 40, 99)] == [0.5, 0.5, 0.0, 0.0]
    check_run(two.__class__(**{**vars(two), "out": str(tmp_path / "run")}))


@pytest.mark.long
def test_a_run_of_the_recipes_stages_goes_on_to_the_last_digit(tmp_path):
    model = taught(tmp_path)
    recipe = read_config(STAGES / "spear.toml")

    def config(name, steps):
        stages = ("select", "select_options", "credit", "credit_options", "loss", "loss_options", "reward", "reward_options")
        chosen = {field: getattr(recipe, field) for field in (*stages, "clip_high")}
        chosen["credit_options"] = {**recipe.credit_options, "warmup": 2}
        return small(tmp_path / name, model, **chosen, steps=steps, tasks_per_step=6)

    train(config("whole", 4))
    train(config("cut", 2))
    resume(tmp_path / "cut", steps=4)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "cut") == episodes(tmp_path / "whole")
    assert any(row["reward/tool_calls"] > 0 for row in curve(tmp_path / "whole"))


def reached(select, seed, steps=20):
    """Return the success of a table after steps of one group of four, at a chain that chance finishes once in sixteen."""
    table = Tabular(seed)
    chosen, credit = SELECTIONS.resolve(select, {}), resolve("off_policy", base="dr_grpo")
    for step in range(steps):
        played = [Group("t", "agent", [table.play(n) for n in range(4)])]
        selected = chosen(played, step=step, run=ALONE)
        for one, arrays in zip(selected, credit(selected, step=step), strict=True):
            for episode, array in zip(one, arrays, strict=True):
                for turn, advantage in zip(episode.turns, array, strict=True):
                    score = np.eye(2)[turn.output_ids[0]] - table.chances(turn.observation)
                    table.logits[turn.observation] += 0.2 * advantage * score
    return table.success()


def test_replayed_successes_teach_where_successes_are_rare():
    with_it, without = ([reached(name, seed) for seed in range(8)] for name in ("self_imitation", "drop"))
    assert np.mean(with_it) > np.mean(without) + 0.2, (with_it, without)
