"""The negotiation: deals found another way, what is shown, the scripted side, self-play, and who is paid."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, Task
from agentgym.contract import CHECKS, check
from agentgym.envs.negotiation import deals
from agentgym.envs.negotiation.deals import all_values, best_total, fair, frontier, points
from agentgym.envs.negotiation.scripted import answered, succeeds

ID = "rlvr/Negotiation-v0"
BY_HAND = Task(
    "Make a good deal.",
    {
        "names": ["book", "hat", "ball"], "counts": (2, 1, 2), "values": ((0, 6, 2), (3, 2, 1)), "goals": (9, 8), "floor": 7,
        "scoring": "competitive", "rounds": 3,
    },
    "train/0/0",
    "train",
)  # fmt: skip


def test_deals_by_hand():
    # A wants the hat (6) and the balls (2 each); B the books (3 each), the hat (2) and the balls (1 each).
    counts, values = BY_HAND.data["counts"], BY_HAND.data["values"]
    assert len(deals.divisions(counts)) == 3 * 2 * 3
    assert points(counts, values, (0, 1, 1)) == (8, 7)
    assert frontier(counts, values) == [(0, 1, 2), (0, 1, 1), (0, 1, 0), (0, 0, 1), (0, 0, 0)]
    got = [points(counts, values, share) for share in frontier(counts, values)]
    assert got == [(10, 6), (8, 7), (6, 8), (2, 9), (0, 10)]
    assert fair(counts, values) == (10, 6)  # 60 is more than 56 and 48
    assert best_total(counts, values) == 16
    assert len(all_values((2, 1), 4)) == 3  # 0 and 4, 1 and 2, 2 and 0


@given(st.data())
def test_deals_agree_with_a_list_of_who_gets_each_thing(data):
    counts = tuple(data.draw(st.lists(st.integers(1, 2), min_size=2, max_size=3)))
    values = tuple(tuple(data.draw(st.lists(st.integers(0, 9), min_size=len(counts), max_size=len(counts)))) for _ in "AB")
    things = [kind for kind, count in enumerate(counts) for _ in range(count)]
    got = set()
    for owners in itertools.product((0, 1), repeat=len(things)):
        got.add(
            tuple(
                sum(values[side][kind] for kind, owner in zip(things, owners, strict=True) if owner == side)
                for side in (0, 1)
            )
        )
    efficient = {p for p in got if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in got)}
    assert {points(counts, values, share) for share in frontier(counts, values)} == efficient
    assert best_total(counts, values) == max(map(sum, got))
    first, second = fair(counts, values)
    assert first * second == max(a * b for a, b in got)
    assert not any(a > first and b > second for a, b in got)  # so no deal lets both sides succeed


@pytest.mark.parametrize("scoring", ["competitive", "cooperative"])
def test_tasks_are_what_the_scoring_says(scoring):
    env = agentgym.make(ID, scoring=scoring, difficulty=1)
    for task in env.tasks(30):
        counts, values = tuple(task.data["counts"]), task.data["values"]
        assert deals.worth(counts, values[0]) == deals.worth(counts, values[1]) == 12
        shares = deals.divisions(counts)
        both = [share for share in shares if succeeds(task.data, share, 0) and succeeds(task.data, share, 1)]
        either = [share for share in shares if succeeds(task.data, share, 0)]
        assert either and (not both if scoring == "competitive" else both == either)


def test_points_of_any_size_have_tasks():
    task = agentgym.make(ID, difficulty=200).numbered(0)
    assert deals.worth(tuple(task.data["counts"]), tuple(task.data["values"][1])) == 410


def test_the_scripted_side_gives_way_by_hand():
    # It insists on ceil(7 + 3 (5 - made) / 5): 10, 9, 9, 8, 7 after 1 to 5 offers; five is the last.
    assert [deals.level(10, 7, made, 5) for made in range(1, 6)] == [10, 9, 9, 8, 7]
    # Asked for everything, it wants at least 9 and leaves what comes closest: of (0 1 0) and (0 0 1), both one thing, ...
    assert answered(BY_HAND.data, (2, 1, 2), 1) == (0, 0, 1)  # ... (0 0 1): it keeps 9, and of (0 1 0) it would keep 8
    assert answered(BY_HAND.data, (0, 1, 1), 5) is None  # it keeps 7
    assert answered(BY_HAND.data, (0, 1, 1), 3) is not None


def test_an_episode_by_hand():
    env = agentgym.make(ID)
    env.reset(seed=0, options={"task": BY_HAND})
    assert "a hat is worth 6 points" in env.observation and "at least 9 points" in env.observation
    observation, _, _, _, info = env.step("accept")
    assert not info["valid"] and "no offer to accept" in observation
    assert not env.step("propose 3 0 0")[4]["valid"] and not env.step("propose 1 1")[4]["valid"]
    assert (
        env.step("  propose  2 1 2 ")[0]
        == "The other side offers you one ball (2 points to you).\nYou can make 2 more offers."
    )
    assert env.step("propose 0 1 2")[4]["success"] is None
    observation, reward, terminated, _, info = env.step("propose 0 1 1")  # its third and last offer: it keeps 7, and accepts
    assert (
        terminated
        and observation == "It is a deal: you take one hat and one ball, and the other side takes two books and one ball."
    )
    assert info["success"] is False and reward == 0  # 8 points are not 9
    assert info["metrics"] == {"points": 0.8, "efficient": 1.0} and env.totals == {"A": 0.0, "B": 0.0}


def test_an_offer_after_the_last_one_ends_it():
    env = agentgym.make(ID)
    env.reset(seed=0, options={"task": BY_HAND})
    for _ in range(2):
        env.step("propose 2 1 2")
    observation, _, terminated, _, info = env.step("propose 2 1 2")
    assert terminated and info["success"] is False and "no deal" in observation


@pytest.mark.parametrize("opponent", ["scripted", "self"])
def test_what_is_shown_says_nothing_of_the_other_sides_points(opponent):
    env = agentgym.make(ID, opponent=opponent)
    first = env.reset(seed=0, options={"task": BY_HAND})[0]
    others = [v for v in all_values(BY_HAND.data["counts"], 10) if v != BY_HAND.data["values"][1]]
    assert len(others) > 10
    for values in others:
        data = {**BY_HAND.data, "values": (BY_HAND.data["values"][0], values), "floor": 3}
        assert env.reset(seed=0, options={"task": dataclasses.replace(BY_HAND, data=data)})[0] == first
        if opponent == "self":  # B is told its own points, and nothing of A's
            observation = env.step("propose 0 1 2")[0]
            assert f"a hat is worth {values[1]} point" in observation
            assert re.search(r"\((\d+) points? to you\)", observation)[1] == str(2 * values[0])
            data = {**data, "values": ((5, 0, 0), values)}
            env.reset(seed=0, options={"task": dataclasses.replace(BY_HAND, data=data)})
            assert env.step("propose 0 1 2")[0] == observation


def test_self_play_tells_each_role_its_own_and_pays_by_role():
    env = agentgym.make(ID, opponent="self")
    env.reset(seed=0, options={"task": BY_HAND})
    assert env.role == "A"
    observation = env.step("propose 0 1 2")[0]
    assert (
        env.role == "B"
        and "a book is worth 3 points" in observation
        and "offers you two books (6 points to you)" in observation
    )
    observation = env.step("propose 2 0 1")[0]  # B takes both books and a ball
    assert (
        env.role == "A"
        and observation == "The other side offers you one hat and one ball (8 points to you).\nYou can make 2 more offers."
    )
    _, reward, terminated, _, info = env.step("propose 0 1 0")
    assert not terminated
    _, reward, terminated, _, info = env.step("accept")  # 6 and 8: B has what it needs
    assert terminated and info["success"] is False and reward == 0
    assert env.totals == {"A": 0.0, "B": 1.0}
    assert env.role_rewards() == env.outcomes == {"A": (0.0, False), "B": (1.0, True)}


def test_self_play_with_too_many_offers_ends_without_a_deal():
    env = agentgym.make(ID, opponent="self")
    env.reset(seed=0, options={"task": BY_HAND})
    ends = [env.step("propose 0 0 0" if turn % 2 else "propose 2 1 2") for turn in range(6)]
    assert [end[2] for end in ends] == [False] * 5 + [True] and env.totals == {"A": 0.0, "B": 0.0}
    assert "You cannot make another offer" in ends[4][0]


def test_cooperation_pays_both():
    data = {**BY_HAND.data, "scoring": "cooperative", "goals": (16, 16)}
    env = agentgym.make(ID, opponent="self", scoring="cooperative")
    env.reset(seed=0, options={"task": dataclasses.replace(BY_HAND, data=data)})
    assert "16" not in env.observation
    env.step("propose 0 1 2")
    assert env.step("accept")[4]["success"] is True and env.totals == {"A": 1.0, "B": 1.0}


def test_the_expert_needs_what_it_was_told_and_the_oracle_does_not():
    env = agentgym.make(ID)
    won = {"oracle": 0, "expert": 0}
    for name in won:
        for seed, task in enumerate(env.tasks(20)):
            env.reset(seed=seed, options={"task": task})
            for action in getattr(env, name)():
                env.step(action)
            won[name] += env.success is True
    assert won["oracle"] == 20 and won["expert"] >= 17


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "minimax"}, "expected 'scripted' or 'self'"),
        ({"scoring": "fair"}, "expected one of 'competitive', 'cooperative'"),
        ({"rounds": 1}, "an integer from 2"),
        ({"opponent": "self", "shaping": {"points": 0.5}}, "its measures are A's"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(BadConfig, match=message):
        agentgym.make(ID, **options)


@pytest.mark.parametrize(
    "options", [{"scoring": "cooperative"}, {"opponent": "self"}, {"opponent": "self", "scoring": "cooperative"}]
)
def test_every_option_keeps_the_contract(options):
    # In self-play a deal that A needs may be given away, and weak players meet themselves.
    left_out = ("oracle recovers", "shortcut policies fail", "chance is poor", "expert is good")
    report = check(ID, checks=[name for name in CHECKS if "opponent" not in options or name not in left_out], **options)
    assert report.ok, str(report)


@pytest.mark.parametrize("scoring", ["competitive", "cooperative"])
def test_random_self_play_ends_and_pays_what_the_deal_says(scoring):
    env, outcomes = agentgym.make(ID, opponent="self", scoring=scoring), set()
    for seed in range(40):
        rng, over = np.random.default_rng(seed), False
        env.reset(seed=seed)
        while not over:
            options = env.admissible()
            action = "accept" if "accept" in options and rng.random() < 0.4 else str(rng.choice(options))
            *_, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert info["success"] is (env.totals["A"] == 1.0)
        assert scoring == "cooperative" or sum(env.totals.values()) <= 1
        outcomes.add(tuple(env.totals.values()))
    assert len(outcomes) >= 2
