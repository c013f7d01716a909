"""What each branching method asks for next, by hand."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from trees import branch, whole

from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.branching.interface import BRANCHINGS, surprise


def sure(episode, *values):
    """Give each turn the mean -log p."""
    for turn, value in zip(episode.turns, values, strict=True):
        turn.logprobs = [-value] * len(turn.output_ids)
    return episode


def growth(size, episodes=(), new=None, rounds=None, seed=0):
    new = list(episodes) if new is None else new
    rounds = int(bool(episodes)) if rounds is None else rounds
    return GroupInProgress(size, size - len(episodes), list(episodes), new, rounds, np.random.default_rng(seed))


def branches(name, grown, **options):
    return BRANCHINGS.resolve(name, options)(grown, step=0)


def test_surprise_is_the_mean_of_the_first_tokens():
    turn = whole(0, "a", 0.0, tokens=[1, 2, 3], logprobs=[-1.0, -3.0, -8.0]).turns[0]
    assert (surprise(turn), surprise(turn, 2), surprise(turn, 20)) == (4.0, 2.0, 4.0)
    turn.logprobs = []
    assert surprise(turn) == 0.0


def test_what_left_a_path():
    first = whole(0, "abcd", 1.0)
    second = branch(1, first, 2, "xy", 0.0)
    third = branch(2, second, 3, "z", 0.0)
    grown = growth(8, [first, second, third])
    assert grown.branches_by_turn(first) == {2: 1} and grown.branches_by_turn(second) == grown.branches_by_turn(third) == {
        2: 1,
        3: 1,
    }


def test_arpo_branches_where_the_entropy_rose():
    assert branches("arpo", growth(8)) == [Branch(4)] and branches("arpo", growth(5), share=0.2) == [Branch(1)]
    first = sure(whole(0, "abc", 1.0), 0.5, 1.5, 0.1)
    assert branches("arpo", growth(8, [first]), base=0, weight=1) == [Branch(1, 0, 1)]  # 1 * (1.5 - 0.5), and -0.4
    assert branches("arpo", growth(8, [first]), base=1, weight=0, beams=2) == [Branch(2, 0, 1), Branch(2, 0, 2)]
    assert branches("arpo", growth(2, [first]), base=1, weight=0, beams=3) == [Branch(1, 0, 1)]  # one is left
    assert branches("arpo", growth(8, [first]), base=0, weight=0) == []
    drawn = Counter()
    for seed in range(2000):
        drawn.update(one.turn for one in branches("arpo", growth(8, [first], seed=seed)))
    # 0.5 + 0.2 * 1 and 0.5 - 0.2 * 0.4; three standard errors of 2000 draws are 0.033
    assert drawn[1] / 2000 == pytest.approx(0.70, abs=0.035) and drawn[2] / 2000 == pytest.approx(0.42, abs=0.035)


def test_arpos_branches_branch_at_their_own_turns():
    first = sure(whole(0, "abc", 1.0), 0.5, 0.5, 0.5)
    second = branch(1, first, 1, "xyz", 0.0)
    grown = growth(8, [first, second], new=[second], rounds=2)
    assert branches("arpo", grown, base=1, weight=0) == [Branch(1, 1, 2), Branch(1, 1, 3)]


def test_aepo_splits_the_budget_by_the_first_episode():
    assert branches("aepo", growth(8)) == [Branch(1)]
    first = sure(whole(0, "abc", 1.0), 0.5, 1.0, 0.6)
    # 8 sigma(0.5 * (0.5 - 0.8)) = 8 * 0.4626 = 3.7, rounded up to 4, of which one is there
    assert branches("aepo", growth(8, [first])) == [Branch(3)]
    # 8 sigma(-3) = 0.38, rounded up to 1: it is there, and may branch
    for sensitivity in (10, 1000):
        assert branches("aepo", growth(8, [first]), sensitivity=sensitivity, base=1, weight=0, penalty=0) == [
            Branch(1, 0, 1),
            Branch(1, 0, 2),
        ]
    sunk = sure(whole(0, "abc", 1.0), 0.5, 10.0, 10.0)  # exp(1000 * 9.5) is beyond floats
    assert branches("aepo", growth(8, [sunk]), sensitivity=1000, base=0, weight=0) == []
    alone = sure(whole(0, "a", 1.0), 0.5)  # no later turn: all of it from the beginning
    for sensitivity in (0, 0.5):
        assert branches("aepo", growth(8, [alone]), sensitivity=sensitivity) == [Branch(7)]


def test_aepo_branches_from_all_whole_episodes_and_then_from_the_new_ones():
    both = [sure(whole(n, "ab", 1.0), 0.5, 0.5) for n in range(2)]
    grown = growth(8, both, new=both[1:], rounds=2)
    assert branches("aepo", grown, base=1, weight=0) == [Branch(1, 0, 1), Branch(1, 1, 1)]
    third = branch(2, both[0], 1, "xy", 0.0)
    grown = growth(8, [*both, third], new=[third], rounds=3)
    assert branches("aepo", grown, base=1, weight=0, penalty=0) == [Branch(1, 2, 2)]


def test_aepo_makes_branches_right_after_branches_rarer():
    first = sure(whole(0, "abcdef", 1.0), *[0.5] * 6)
    options = {"sensitivity": 0, "base": 1, "weight": 0, "penalty": 0.5}
    counts, after = Counter(), Counter()
    for seed in range(1000):
        grown = growth(20, [first], rounds=2, seed=seed)
        turns = {one.turn for one in branches("aepo", grown, **options)}
        counts.update(turns)
        after[2 in turns, 3 in turns] += 1
        assert not {1, 2, 3} <= turns  # 1 - 0.5 * 2 = 0: the third in a row never
    assert counts[1] == 1000 and counts[2] / 1000 == pytest.approx(0.5, abs=0.05)
    assert after[False, True] == sum(after[False, other] for other in (True, False))  # after a turn without: always
    plain = branches("aepo", growth(20, [first], rounds=2), **{**options, "penalty": 0})
    assert [one.turn for one in plain] == [1, 2, 3, 4, 5]


def test_treerl_branches_at_the_least_likely_turns_of_each_tree():
    assert branches("treerl", growth(30)) == [Branch(6)]  # 6 (1 + 1 * 2 * 2)
    assert branches("treerl", growth(8), points=1, branches=1, rounds=3) == [Branch(2)]
    first = sure(whole(0, "abcd", 1.0), 9.0, 0.2, 0.5, 0.3)  # no branch begins before the first turn
    second = sure(whole(1, "ef", 0.0), 1.0, 0.1)
    assert branches("treerl", growth(30, [first, second])) == [Branch(2, 0, 2), Branch(2, 0, 3), Branch(2, 1, 1)]
    third = sure(branch(2, first, 2, "xy", 0.0), 9.0, 0.2, 0.9, 0.8)
    grown = growth(30, [first, second, third], new=[third], rounds=2)
    assert branches("treerl", grown) == []  # one round
    # turn 2 has branched, and is where the third began: of its tree, its last turn and then the first's
    assert branches("treerl", grown, rounds=2)[:2] == [Branch(2, 2, 3), Branch(2, 0, 3)]


def test_chosen_turns():
    assert branches("turns", growth(8)) == [Branch(4)]
    first, second = sure(whole(0, "abc", 1.0), 0.5, 0.1, 0.9), sure(whole(1, "axy", 0.0), 0.5, 0.4, 0.3)
    second.turns[2].state_key = first.turns[1].state_key  # met twice, as the first turn's
    grown = growth(6, [first, second])
    assert len(branches("turns", grown)) == 4
    assert branches("turns", grown, at="uncertain", k=2) == [Branch(2, 0, 2), Branch(2, 1, 1)]
    assert sorted((b.attempt, b.turn) for b in branches("turns", grown, at="anchors")) == [(0, 1), (1, 2)]
    assert sorted((b.attempt, b.turn) for b in branches("turns", grown, at="alone")) == [(0, 2), (1, 1)]
    assert branches("turns", dataclasses.replace(grown, rounds=2)) == []


def test_pairs_are_from_a_turn_of_each_drawn_evenly():
    assert branches("pairs", growth(8)) == [Branch(4)] and branches("pairs", growth(5)) == [Branch(3)]
    both = [whole(0, "abcd", 1.0), whole(1, "e", 0.0)]
    drawn = [branches("pairs", growth(4, both, seed=seed)) for seed in range(400)]
    assert all([(one.number, one.attempt) for one in found] == [(1, 0), (1, 1)] for found in drawn)
    times = Counter(found[0].turn for found in drawn)
    assert set(times) == set(range(4)) and all(abs(n - 100) < 3.5 * math.sqrt(75) for n in times.values())
    assert {found[1].turn for found in drawn} == {0}
