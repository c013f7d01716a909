"""Kuhn poker: exact values by hand and from the literature, what each role sees, who is paid, the contract in self-play."""

import itertools

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig, BadData
from agentgym.agents.policies import RandomAgent
from agentgym.contract import CHECKS, check
from agentgym.envs.duels.kuhn_rules import (
    DEALS,
    NASH_VALUE,
    OPEN,
    best_response,
    equilibrium,
    exploitability,
    payoff,
    strategy_of,
    value,
)

ID = "rlvr/KuhnPoker-v0"
SETS = [card + history for card in "JQK" for history in OPEN]


def constant(bet):
    return dict.fromkeys(SETS, bet)


def test_what_a_hand_pays():
    # the first side holds the queen, the second the jack
    assert {history: payoff("QJ", history) for history in ("pp", "bp", "bb", "pbp", "pbb")} == {
        "pp": 1, "bp": 1, "bb": 2, "pbp": -1, "pbb": 2,
    }  # fmt: skip
    assert [payoff("QK", history) for history in ("pp", "bb", "pbb")] == [-1, -2, -2]


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_equilibria_have_kuhns_value_and_cannot_be_exploited(alpha):
    strategy = equilibrium(alpha)
    assert value(strategy, strategy) == pytest.approx(NASH_VALUE) == pytest.approx(-1 / 18)
    assert best_response(strategy, 0) == pytest.approx(-1 / 18)
    assert best_response(strategy, 1) == pytest.approx(1 / 18)
    assert exploitability(strategy) == pytest.approx(0.0, abs=1e-12)


def test_exploitability_of_known_strategies():
    # Always bet and call. Per seat, the other side calls (or bets) with K: 2 chips in 2 of 6 deals; Q breaks even; J folds:
    # -1 in 2 of 6 deals. (4 - 2) / 6 = 1/3.
    assert exploitability(constant(1.0)) == pytest.approx(1 / 3)
    # Always check and fold: whoever bets wins the ante in every deal.
    assert exploitability(constant(0.0)) == pytest.approx(1.0)
    assert exploitability(constant(0.5)) == pytest.approx(
        0.9166666666666666 / 2
    )  # OpenSpiel's NashConv of the uniform policy


def test_no_strategy_is_below_zero_and_only_equilibria_are_zero():
    rng = np.random.default_rng(0)
    for _ in range(20):
        strategy = dict(zip(SETS, rng.random(len(SETS)).tolist(), strict=True))
        assert exploitability(strategy) > 0.01
    assert exploitability({**equilibrium(), "Qp": 0.2}) > 0.005  # a queen never bets after a check


def test_a_best_response_is_as_good_as_any_mixed_one():
    rng, uniform = np.random.default_rng(1), constant(0.5)
    best = best_response(uniform, 0)
    assert all(value(dict(zip(SETS, rng.random(12).tolist(), strict=True)), uniform) <= best for _ in range(50))


def play(env, seed, task, choose):
    observation, info = env.reset(seed=seed, options={"task": task})
    seen, over = [(env.role, observation)], False
    while not over:
        observation, reward, terminated, truncated, info = env.step(choose(env))
        over = terminated or truncated
        if not over:
            seen.append((env.role, observation))
    return seen, reward, info


def test_no_constant_policy_wins_and_careful_play_does():
    env = agentgym.make(ID)
    for task in env.tasks(30):
        _, reward, info = play(env, 0, task, lambda env: next(env.expert()))
        assert info["success"] and reward == 1 and env.chips >= task.data["goal"] >= 1
        for place in (0, 1):
            _, _, info = play(env, 0, task, lambda env, place=place: env.admissible()[place])
            assert not info["success"]


def test_nothing_shown_before_a_showdown_depends_on_the_other_card():
    # J against K in place of J against Q: the side with the jack reads the same until the hand ends.
    env = agentgym.make(ID, opponent="self", hands=1)
    task = env.tasks(1)[0]
    for moves in itertools.product(("check", "bet", "fold", "call"), repeat=2):
        texts = []
        for deal in ("JQ", "JK"):
            task.data["deals"][:] = [deal]
            env.reset(seed=0, options={"task": task})
            observations = [env.observation]
            for move in moves:
                over = env.step(move)[2]
                if over:
                    break
                if env.role == "A":
                    observations.append(env.observation)
            texts.append(observations)
        assert texts[0] == texts[1]


def test_self_play_pays_chips_by_role():
    env = agentgym.make(ID, opponent="self", hands=1)
    task = env.tasks(1)[0]
    task.data["deals"][:] = ["QK"]
    _, _, info = play(env, 0, task, lambda env: env.admissible()[1])  # bet, call
    assert env.outcomes == {"A": (-1.0, False), "B": (1.0, True)} and info["success"] is False
    assert info["metrics"] == {"chips": 0.0}  # the measure of a loss of 2 chips per hand
    assert env.reset(seed=0, options={"task": task})[1]["metrics"] == {"chips": 0.5}
    moves = iter(["check", "bet", "fold"])
    seen, _, info = play(env, 0, task, lambda env: next(moves))
    assert env.outcomes == {"A": (-0.5, False), "B": (0.5, True)} and info["metrics"] == {"chips": 0.25}
    assert [role for role, _ in seen] == ["A", "B", "A"]
    assert ["You are B" in text for _, text in seen] == [False, True, False]  # each role reads the rules once
    assert seen[2][1] == "Hand 1 of 1. You have 0 chips. Your card: Q. Moves: check, bet. Reply fold or call."


def test_a_role_that_does_not_move_loses_the_match():
    env = agentgym.make(ID, opponent="self", hands=1)
    _, _, info = play(env, 0, env.tasks(1)[0], lambda env: "check" if env.role == "A" else "pass")
    assert env.outcomes == {"A": (1.0, True), "B": (-1.0, False)} and info["reason"] == "horizon"


def test_the_roles_take_turns_in_moving_first():
    env = agentgym.make(ID, opponent="self")
    seen, _, _ = play(env, 0, env.tasks(1)[0], lambda env: env.admissible()[0])
    assert [role for role, _ in seen] == ["A", "B", "B", "A"] * 3
    assert sorted(env.task.data["deals"]) == sorted(DEALS)


def test_the_strategy_of_episodes_is_the_one_that_played_them():
    episodes = agentgym.collect(RandomAgent(), ID, tasks=60, attempts=4, env_options={"opponent": "self"})
    strategy = strategy_of(turn for episode in episodes for turn in episode.turns)
    assert sorted(strategy) == sorted(SETS)
    assert all(abs(bet - 0.5) < 0.12 for bet in strategy.values())
    assert abs(exploitability(strategy) - 0.4583) < 0.15
    with pytest.raises(BadData, match="no turn was played at"):
        strategy_of(episodes[0].turns[:1])
    assert strategy_of([], unseen=0.5) == constant(0.5)


def test_self_play_keeps_what_it_promises():
    # Chips that were given away stay away, and a weak player meets itself.
    left_out = ("oracle recovers", "shortcut policies fail", "chance is poor", "expert is good")
    report = check(ID, opponent="self", checks=[name for name in CHECKS if name not in left_out])
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "minimax"}, "expected 'equilibrium' or 'self'"),
        ({"hands": 1}, "the difficulty says how many"),
        ({"hands": -1, "opponent": "self"}, "expected an integer"),
        ({"opponent": "self", "shaping": {"chips": 0.5}}, "its measures are A's"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(BadConfig, match=message):
        agentgym.make(ID, **options)
