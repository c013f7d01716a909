"""Credit by the values of states: by hand, against a second implementation, and where it is meant to be better."""

import math
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from credit_envs import episode, group
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import BadConfig
from agentgym.trainers.credit.group import grpo
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.credit.state_td import branch_td, state_keys, state_td

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from credit_ladder import Ladder, efficiency

rewards = st.sampled_from([0.0, 1.0, 0.1, -0.3])
turns = st.tuples(st.sampled_from("abcd"), rewards, st.booleans())
episodes = st.lists(turns, min_size=1, max_size=6).map(lambda made: episode(*made))
groups = st.lists(episodes, min_size=1, max_size=6).map(lambda made: group(*made))
shares = st.sampled_from([0.0, 0.3, 0.95, 1.0])
PLAIN = {"gamma": 1.0, "lam": 0.0, "shrinkage": 0.0, "scale": "none"}


def flat(found):
    return [float(x) for rows in found for array in rows for x in array]


def three():
    """Returns 1, 0, 0: all begin in a; the first goes on to b and wins, the last by c to b and loses."""
    return group(
        episode(("a", 0), ("b", 1)),
        episode(("a", 0)),
        episode(("a", 0), ("c", 0), ("b", 0)),
    )


def test_by_hand():
    # V(a) = 1/3, V(b) = (1 + 0) / 2, V(c) = 0
    assert flat(state_td([three()], **PLAIN)) == pytest.approx([1 / 6, 1 / 2, -1 / 3, -1 / 3, 1 / 2, -1 / 2])


def test_discount_by_hand():
    # G: 0.5, 1; 0; 0, 0, 0. V(a) = 1/6, V(b) = 1/2, V(c) = 0
    found = flat(state_td([three()], **{**PLAIN, "gamma": 0.5}))
    assert found == pytest.approx([1 / 4 - 1 / 6, 1 / 2, -1 / 6, -1 / 6, 1 / 4, -1 / 2])


def test_lam_by_hand():
    # errors 1/6, 1/2; -1/3; -1/3, 1/2, -1/2, and half of what follows
    found = flat(state_td([three()], **{**PLAIN, "lam": 0.5}))
    assert found == pytest.approx([1 / 6 + 1 / 4, 1 / 2, -1 / 3, -1 / 3 + 1 / 8, 1 / 2 - 1 / 4, -1 / 2])
    # lam 1: the return less the value of the state
    whole = flat(state_td([three()], **{**PLAIN, "lam": 1.0}))
    assert whole == pytest.approx([1 - 1 / 3, 1 - 1 / 2, -1 / 3, -1 / 3, 0, -1 / 2])


def test_shrinkage_by_hand():
    # the mean of G over turns is (1 + 1 + 0 + 0 + 0 + 0) / 6 = 1/3
    # V(a) = (1 + 1/3) / (3 + 1) = 1/3; V(b) = (1 + 1/3) / (2 + 1) = 4/9; V(c) = (0 + 1/3) / (1 + 1) = 1/6
    found = flat(state_td([three()], **{**PLAIN, "shrinkage": 1.0}))
    assert found == pytest.approx([4 / 9 - 1 / 3, 5 / 9, -1 / 3, 1 / 6 - 1 / 3, 4 / 9 - 1 / 6, -4 / 9])


def test_revisits_by_hand():
    loop = group(episode(("a", 0), ("a", 0), ("a", 1)), episode(("a", 0)))
    # every visit: V(a) = 3/4; errors 0, 0, 1/4 and -3/4. First visits alone: V(a) = 1/2
    assert flat(state_td([loop], **PLAIN, revisits=True)) == pytest.approx([0, 0, 1 / 4, -3 / 4])
    assert flat(state_td([loop], **PLAIN)) == pytest.approx([0, 0, 1 / 2, -1 / 2])


def test_a_circle_costs_the_discount():
    made = group(episode(("a", 0), ("b", 0), ("a", 1)), episode(("a", 1)))
    first = state_td([made], **{**PLAIN, "gamma": 0.9})[0][0]
    value = (0.81 + 1) / 2
    assert first[0] + 0.9 * first[1] == pytest.approx((0.81 - 1) * value)


def test_penalties_by_hand():
    pair = group(episode(("a", 0), ("b", 1)), episode(("a", 0), ("b", 0, False)))
    # V(a) = V(b) = 1/2, and the rejected action pays on top
    assert flat(state_td([pair], **PLAIN, penalty=0.2)) == pytest.approx([0, 1 / 2, 0, -1 / 2 - 0.2])
    # before: rewards 0, 1 and 0, -0.2; V(a) = V(b) = 0.4
    early = flat(state_td([pair], **PLAIN, penalty=0.2, penalty_order="before"))
    assert early == pytest.approx([0, 0.6, 0, -0.6])
    assert flat(state_td([pair], **PLAIN, penalty=0.2, punish="parsed")) == pytest.approx([0, 1 / 2, 0, -1 / 2])


def test_scale_by_hand():
    # grpo: +-1/sqrt(2) in 2 + 1 turns: mean square 1/2. Errors: V(a) = 1/2, V(b) = 1: 1/2, 0, -1/2: mean square 1/6
    pair = group(episode(("a", 0), ("b", 1)), episode(("a", 0)))
    found = flat(state_td([pair], **{**PLAIN, "scale": "grpo"}))
    assert found == pytest.approx([math.sqrt(3) / 2, 0, -math.sqrt(3) / 2], rel=1e-5)
    # one number for the whole batch, and the penalty is not multiplied
    both = state_td([pair, group(*(episode(("a", 0)) for _ in range(2)))], **{**PLAIN, "scale": "grpo"}, penalty=0.1)
    assert flat(both) == pytest.approx([math.sqrt(3) / 2, 0, -math.sqrt(3) / 2, 0, 0], rel=1e-5)


def test_what_was_seen_as_the_anchor_and_answers_to_errors_without_one():
    made = episode(("a", 0), ("no", 0, False), ("no", 0), ("b", 1))
    assert state_keys(made) == ["key a", "key no", "key no", "key b"]
    assert state_keys(made, "observation") == ["a", "no", None, "b"]
    # a state of its own: V = 1 as its return is
    other = episode(("a", 0), ("no", 0))
    found = flat(state_td([group(made, other)], **PLAIN, anchor="observation"))
    assert found == pytest.approx([0, 1 / 2, 0, 0, 0, -1 / 2])


def test_without_keys_and_shrinkage_nothing_is_learned_and_rounding_is_not_blown_up():
    made = group(episode(("a", 0.1), ("b", 0.7), ("c", 0.2)), episode(("a", 0), ("b", 0), ("c", 0.3)))
    for one in made:
        for turn in one.turns:
            turn.state_key = None
    assert not any(flat(state_td([made], shrinkage=0.0)))
    assert any(flat(state_td([made], shrinkage=0.5)))


def test_processes_share_one_scale_though_one_of_them_has_no_groups():
    class Two:
        def __init__(self, others):
            self.others = others

        def gather(self, items):
            return [*items, *self.others]

    pair, rest = three(), group(episode(("a", 0), ("b", 0.5)), episode(("a", 0)))
    together = state_td([pair, rest])
    seen = []
    state_td([rest], run=type("Spy", (), {"gather": lambda self, items: seen.extend(items) or items})())
    assert flat(state_td([pair], run=Two(seen))) == pytest.approx(flat(together[:1]))
    assert state_td([], run=Two(seen)) == []


def second(made, *, gamma, lam, shrinkage, revisits):
    """The definition, written down again from the page: values first, then every advantage as its own sum."""

    def to_go(one, k):
        return sum(gamma**j * turn.reward for j, turn in enumerate(one.turns[k:]))

    everything = [to_go(one, k) for one in made for k in range(len(one.turns))]
    prior = sum(everything) / len(everything)
    table = defaultdict(list)
    for one in made:
        met = set()
        for k, turn in enumerate(one.turns):
            if revisits or turn.state_key not in met:
                table[turn.state_key].append(to_go(one, k))
            met.add(turn.state_key)

    def value(turn):
        own = table[turn.state_key]
        weight = len(own) / (len(own) + shrinkage)
        return weight * sum(own) / len(own) + (1 - weight) * prior

    rows = []
    for one in made:
        values = [*map(value, one.turns), 0.0]
        deltas = [turn.reward + gamma * after - now for turn, (now, after) in zip(one.turns, pairwise(values), strict=True)]
        rows.append([sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(deltas))) for k in range(len(deltas))])
    return rows


@given(groups, shares, shares, st.sampled_from([0.0, 0.5, 4.0]), st.booleans())
def test_a_second_implementation_agrees(made, gamma, lam, shrinkage, revisits):
    options = {"gamma": gamma, "lam": lam, "shrinkage": shrinkage, "revisits": revisits}
    found = state_td([made], **options, scale="none")[0]
    for row, expected in zip(found, second(made, **options), strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-12)


@given(groups, shares, st.sampled_from([0.0, 0.5]))
def test_the_errors_of_an_episode_sum_to_its_return_less_the_value_of_its_beginning(made, gamma, shrinkage):
    options = {"gamma": gamma, "shrinkage": shrinkage, "scale": "none"}
    errors = state_td([made], **options, lam=0.0)[0]
    whole = state_td([made], **options, lam=1.0)[0]
    for short, long in zip(errors, whole, strict=True):
        assert short @ gamma ** np.arange(len(short)) == pytest.approx(long[0], abs=1e-9)


@given(groups)
def test_advantages_at_a_state_sum_to_zero_where_all_of_the_return_counts(made):
    sums = defaultdict(float)
    for one, row in zip(made, state_td([made], lam=1.0, shrinkage=0.0, scale="none", revisits=True)[0], strict=True):
        for turn, value in zip(one.turns, row, strict=True):
            sums[turn.state_key] += value
    assert all(abs(total) < 1e-9 for total in sums.values())


@given(st.lists(groups, min_size=1, max_size=3))
def test_the_spread_is_that_of_grpo(made):
    ours = np.array(flat(state_td(made)))
    theirs = np.array(flat([grpo(one) for one in made]))
    assert ours @ ours == pytest.approx(theirs @ theirs, abs=1e-9) or not ours.any()


@given(groups, st.randoms(use_true_random=False))
def test_the_order_of_episodes_does_not_matter(made, random):
    order = list(range(len(made)))
    random.shuffle(order)
    straight, mixed = state_td([made])[0], state_td([group(*(made[i] for i in order))])[0]
    for place, i in enumerate(order):
        np.testing.assert_allclose(mixed[place], straight[i], atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"gamma": 1.5}, {"lam": -0.1}, {"shrinkage": -1}, {"anchor": "text"}, {"penalty_order": "after"}]
)
def test_values_that_are_refused(options):
    with pytest.raises(BadConfig, match=f"{next(iter(options))} of credit 'state_td'"):
        resolve("state_td", **options)


def test_on_a_ladder_it_says_more_of_a_turn_than_grpo_and_less_where_hardly_two_episodes_meet():
    ladder, rng = Ladder(), np.random.default_rng(0)
    for copies, better in ((1, 3.0), (64, 0.0)):
        played = [replace(ladder, copies=copies).play(rng, 8) for _ in range(150)]
        made, exact = [one for one, _ in played], [rows for _, rows in played]
        ours, theirs = efficiency(state_td(made), exact), efficiency([grpo(one) for one in made], exact)
        assert ours > better * theirs if better else ours < theirs


def test_the_ladder_by_hand():
    # one rung: two turns win with 0.6 + 0.4 * 0.6 = 0.84; up is worth 1 - 0.84, down 0.6 - 0.84
    ladder = Ladder(rungs=1, climbs=0.6, falls=0.0, horizon=2)
    assert ladder.values().tolist() == [[0, 1], [0.6, 1], [pytest.approx(0.84), 1]]
    for one, exact in zip(*ladder.play(np.random.default_rng(0), 30), strict=True):
        assert exact[0] == pytest.approx(0.16 if len(one.turns) == 1 else -0.24)
    # half of all turns end it: 0.5 * 0.6 with one turn left
    assert replace(ladder, falls=0.5).values()[1].tolist() == [0.3, 1]


@pytest.mark.parametrize(("shrinkage", "share"), [(0.0, 2 / 3), (1.0, None)])
def test_the_mean_error_of_an_action_is_its_advantage_less_the_own_share(shrinkage, share):
    """Every group of three that there can be: left with 1/4, which wins with 1/2; right, which wins with 1/8."""
    ways = [("left", 1, 1 / 8), ("left", 0, 1 / 8), ("right", 1, 3 / 32), ("right", 0, 21 / 32)]
    assert sum(way[2] for way in ways) == 1
    q = {"left": 1 / 2, "right": 1 / 8}
    v = q["left"] / 4 + q["right"] * 3 / 4
    sums, weights = defaultdict(float), defaultdict(float)
    for three_ways in product(ways, repeat=3):
        chance = math.prod(way[2] for way in three_ways)
        made = group(*(episode(("start", 0), (side, won)) for side, won, _ in three_ways))
        rows = state_td([made], **{**PLAIN, "shrinkage": shrinkage})[0]
        sums[three_ways[0][0]] += chance * rows[0][0]
        weights[three_ways[0][0]] += chance
    found = {side: sums[side] / weights[side] for side in q}
    if share is not None:
        assert found == pytest.approx({side: share * (q[side] - v) for side in q})
    else:  # drawn to the middle: the sign is kept, and no advantage is larger than without
        assert all(0 < found[side] / (q[side] - v) < 2 / 3 for side in q)


def test_continuations_are_further_visits_by_hand():
    made = three()
    for one in made:
        for turn in one.turns:
            turn.extra["branches"] = math.nan
    assert flat(branch_td([made], **PLAIN)) == flat(state_td([made], **PLAIN))
    made[2].turns[1].extra["branches"] = 0.5  # c, met once: V(c) = (0 + 3 * 0.5) / (1 + 3) = 3/8
    found = flat(branch_td([made], **PLAIN, branch_visits=3.0))
    assert found == pytest.approx([1 / 6, 1 / 2, -1 / 3, 3 / 8 - 1 / 3, 1 / 2 - 3 / 8, -1 / 2])
    assert flat(branch_td([made], **PLAIN, branch_visits=0.0)) == flat(state_td([made], **PLAIN))
