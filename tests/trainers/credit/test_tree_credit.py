"""Credit made of branches, by hand, and what it teaches on a chain of choices."""

import numpy as np
import pytest
from any_tree import any_tree
from credit_envs import episode, group
from hypothesis import given, settings
from hypothesis import strategies as st
from tabular_tree import TabularTree
from trees import tree

from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.credit.pav import progress
from agentgym.trainers.credit.spa import contributions
from agentgym.trainers.data.trees import holders
from agentgym.trainers.needs.prover import expected_best
from agentgym.trainers.run.preflight import check_run


def credited(name, *groups, **options):
    return resolve(name, **options)(groups)[0]


def equal(found, expected):
    for row, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=1e-5)


def test_arpo_by_hand():
    # returns 1 0 1 0 0: less their mean 0.6 -0.4 0.6 -0.4 -0.4; a is held by four, b and y by two each
    centred = [[0.1, 0.1, 0.6], [0.1, 0.1, -0.4], [0.1, 0.1, 0.6], [0.1, 0.1, -0.4], [-0.4]]
    equal(credited("arpo", tree(), norm="mean"), centred)
    spread = np.sqrt(0.3)  # (2 * 0.36 + 3 * 0.16) / 4
    equal(credited("arpo", tree()), [np.array(row) / spread for row in centred])


def test_aepo_by_hand():
    both = group(episode(("a", 1.0)), episode(("b", 0.0)))
    for one in both:
        one.turns[0].output_ids, one.turns[0].extra["entropy"] = [5, 6], np.array([1.0, 3.0])
    equal(credited("aepo", both, norm="mean", alpha=0.2), [[0.4, 0.6], [-0.4, -0.6]])  # z is -1 and 1
    equal(credited("aepo", both, norm="mean", alpha=2.0), [[0.0, 1.5], [0.0, -1.5]])  # never turned round
    for one in both:
        one.turns[0].extra["entropy"] = np.array([2.0, 2.0])
    equal(credited("aepo", both, norm="mean"), [[0.5, 0.5], [-0.5, -0.5]])
    found = tree()
    for turn in (turn for one in found for turn in one.turns):
        turn.extra["entropy"] = np.ones(2)
    equal(credited("aepo", found), [np.repeat(row, 2) for row in credited("arpo", found)])


def test_treerl_by_hand():
    # values: root 2/5; a 1/2 (4 leaves), b and y 1/2 (2), c and z 1, x, w and d 0
    a, b, won, lost, d = (0.1 + 0.1) / 2, (0.1 + 0.0) / np.sqrt(2), 0.6 + 0.5, -0.4 - 0.5, -0.4 - 0.4
    equal(credited("treerl", tree()), [[a, b, won], [a, b, lost], [a, b, won], [a, b, lost], [d]])


def test_treerl_gives_all_turns_of_a_step_the_same_and_without_branches_twice_the_centred_return():
    alone = group(episode(("a", 0.0), ("b", 1.0)), episode(("c", 0.0)))
    equal(credited("treerl", alone), [[1.0, 1.0], [-1.0]])
    equal(credited("treerl", group(episode(("a", 1.0)), episode(("b", 1.0)))), [[0.0], [0.0]])


def test_relative_futures_by_hand():
    # after nothing: a 1/2, d 0; after a: b and y 1/2 each; after b: c 1, x 0; after a y: z 1, w 0
    equal(credited("relative_future", tree()), [[0.5, 0, 1], [0.5, 0, -1], [0.5, 0, 1], [0.5, 0, -1], [-0.5]])
    three = group(episode(("a", 0.0), ("b", 1.0)), episode(("c", 0.0)), episode(("d", 0.5)))
    for attempt, one in enumerate(three):
        one.attempt = attempt
    equal(credited("relative_future", three, gamma=0.5), [[0.25, 0.0], [-0.5], [0.25]])  # 0.5, 0, 0.5 less the others' mean


def test_pav_by_hand():
    both = group(episode(("a", 0.0), ("b", 0.0), ("c", 1.0)), episode(("d", 0.0)))
    for one, values in zip(both, ([0.25, 0.5, np.nan], [0.5]), strict=True):
        for turn, value in zip(one.turns, values, strict=True):
            turn.extra["prover"] = value
    # progress 0.5 - 0.25; then 1 - 0.5 for both turns; 0 - 0.5
    equal(credited("pav", both, alpha=2.0), [[1.0, 1.5, 1.5], [-1.5]])
    equal(credited("pav", both, alpha=0.0), [[0.5] * 3, [-0.5]])
    np.testing.assert_allclose(progress(np.array([np.nan, 0.5, 0.25]), np.array([0.0, 0.0, 1.0])), [0, -0.25, 0.75])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), min_size=1, max_size=6))
def test_progress_sums_to_the_return_less_the_first_value(turns):
    values, rewards = np.array(turns).T
    assert progress(values, rewards).sum() == pytest.approx(rewards.sum() - values[0], abs=1e-9)


def test_the_expected_best_by_hand():
    assert expected_best([0, 1, 0, 1], 2) == pytest.approx(5 / 6)  # one of six pairs has no success
    assert expected_best([0, 1, 0, 1], 1) == pytest.approx(0.5) and expected_best([0, 1, 0, 1], 4) == 1.0
    assert expected_best([0.2, 0.8, 0.5], 2) == pytest.approx((0.5 + 0.8 + 0.8) / 3)
    assert np.isnan(expected_best([1.0], 2))


def test_spa_by_hand():
    one = episode(("a", 0.0), ("b", 1.0))
    for turn, values in zip(one.turns, ([0.9, 0.2], [0.1]), strict=True):
        turn.extra["values"] = np.array(values, dtype=np.float32)
    np.testing.assert_allclose(contributions(one, "none"), [0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(contributions(one), [0.2 + 0.35, 0.1 + 0.35], rtol=1e-6)  # 0.7 is missing
    targets = [turn.extra["value_target"] for turn in one.turns]
    assert np.isnan(targets[0][0]) and targets[0][1] == pytest.approx(0.9) and targets[1][0] == pytest.approx(0.8)
    # the squared errors of head and target pull at each contribution as (sum of c - R)^2 / 2 does: by sum of c - R
    pulls = [float(turn.extra["values"][-1] - target[-1]) for turn, target in zip(one.turns, targets, strict=True)]
    assert pulls == pytest.approx([0.3 - 1.0] * 2)
    other = episode(("c", 0.0))
    other.turns[0].valid = False
    rows = credited("spa", group(one, other), gamma=0.5, grounding=0.1)
    paid = np.array([0.65 + 0.5 * 0.55, 0.55, 0.0])  # 0.55 + 0.1 and 0.45 + 0.1; nothing
    np.testing.assert_allclose(np.concatenate(rows), (paid - paid.mean()) / paid.std(), rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=1, max_size=6), st.floats(-1, 1))
def test_contributions_sum_to_the_outcome(credits, outcome):
    one = episode(*[(str(n), 0.0) for n in range(len(credits))])
    one.reward = one.turns[-1].reward = outcome
    for turn, value in zip(one.turns, credits, strict=True):
        if value is not None:
            turn.extra["values"] = np.array([value])
    assert contributions(one).sum() == pytest.approx(outcome, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(any_tree(), st.sampled_from(["arpo", "treerl", "relative_future"]))
def test_a_turn_has_the_same_credit_in_all_that_hold_it(found, name):
    rows = credited(name, found)
    for key, places in holders(found.episodes).items():
        assert len({round(float(rows[place][key[1]]), 9) for place in places}) == 1


@settings(max_examples=60, deadline=None)
@given(any_tree())
def test_siblings_have_relative_futures_that_sum_to_nothing(found):
    from agentgym.trainers.data.trees import forks

    rows, turn_holders = credited("relative_future", found), holders(found.episodes)
    for siblings in forks(found.episodes):
        assert sum(rows[turn_holders[key][0]][key[1]] for key in siblings) == pytest.approx(0, abs=1e-9)


def test_a_prover_that_cannot_be_measured_is_refused(tmp_path):
    options = {"env": "rlvr/GuessNumber-v0", "out": str(tmp_path / "run"), "credit": "pav"}
    with pytest.raises(BadConfig, match="best_of is 4 and k 2; the best of 4 needs at least as many continuations"):
        check_run(TrainConfig(**options, needs_options={"k": 2}))
    with pytest.raises(BadConfig, match=r"needs 'prover': .* has the roles X, O"):
        check_run(TrainConfig(**{**options, "env": "rlvr/TicTacToe-v0"}))


def success(credit, branching="", lr=0.7, seeds=5):
    """The mean success after the same number of sampled turns, however they were spent."""
    return float(np.mean([TabularTree(seed, branching).learn(resolve(credit), turns=1600, lr=lr) for seed in range(seeds)]))


@pytest.mark.parametrize(
    ("credit", "branching", "lr", "least"),
    [
        ("aepo", "aepo", 0.7, 0.4),
        ("treerl", "treerl", 3.0, 0.8),
        ("relative_future", "pairs", 3.0, 0.3),
        ("spa", "", 0.7, 0.4),
    ],
)
def test_a_policy_learns_a_chain_of_choices_by_it(credit, branching, lr, least):
    assert success(credit, branching, lr) > least > 1 / 16  # what it begins with


def test_branches_after_surprises_teach_more_than_whole_episodes_of_as_many_turns():
    assert success("arpo", "arpo") > success("grpo") + 0.02


def test_progress_under_a_prover_teaches_more_than_the_outcome_alone():
    assert success("pav", lr=3.0) > success("dr_grpo", lr=3.0) + 0.02
