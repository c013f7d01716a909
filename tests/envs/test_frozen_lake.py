"""The frozen lake by hand: where moves end, what chance does, and what is best."""

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig, Task
from agentgym.envs.frozen_lake import NAMES, distances, policy, slid, step_from

LAKE = ("FFF", "FHF", "FFG")


def lake(slip=0.0, rows=LAKE, seed=0):
    env = agentgym.make("rlvr/FrozenLake-v0", slip=slip)
    env.reset(seed=seed, options={"task": Task(data={"lake": rows}, id="mine")})
    return env


def test_a_crossing_by_hand():
    env = lake()
    assert env.observation.endswith("\n@FF\nFHF\nFFG")
    assert env.step("right")[0] == "F@F\nFHF\nFFG"
    assert env.step(" UP ")[0] == "F@F\nFHF\nFFG"  # at the edge one stays
    assert env.step("right")[0] == "FF@\nFHF\nFFG"
    assert env.info()["metrics"] == {"near": pytest.approx(1 - 2 / 8)}
    assert env.step("down")[1:4] == (0.0, False, False)
    assert env.step("down")[:4] == ("You reach the goal.", 1.0, True, False)


def test_a_hole_ends_it():
    env = lake()
    env.step("down")
    assert env.step("right")[:4] == ("The ice breaks and you drown.", 0.0, True, False)
    assert env.success is False


def test_an_invalid_move_draws_no_chance():
    one, two = lake(0.5), lake(0.5)
    two.step("jump")
    assert [one.step("right")[0] for _ in range(1)] == [two.step("right")[0] for _ in range(1)]


def test_distances_by_hand():
    assert distances(LAKE) == {(2, 2): 0, (2, 1): 1, (1, 2): 1, (2, 0): 2, (0, 2): 2, (1, 0): 3, (0, 1): 3, (0, 0): 4}
    assert (0, 0) not in distances(("FHF", "HFF", "FFG"))


def test_moves_slip_to_the_sides_and_never_back():
    chance = np.random.default_rng(0)
    ends = [slid("down", chance, 0.2) for _ in range(4000)]
    shares = {name: ends.count(name) / 4000 for name in NAMES}
    assert shares["up"] == 0 and shares["down"] == pytest.approx(0.8, abs=0.03)
    assert shares["left"] == pytest.approx(0.1, abs=0.02) == pytest.approx(shares["right"], abs=0.03)


def test_the_policy_walks_the_shortest_way_where_nothing_slips():
    place, way = (0, 0), policy(LAKE, 0.0)
    for _ in range(4):
        place = step_from(LAKE, place, way[place])
    assert place == (2, 2)


def test_the_policy_keeps_away_from_holes_where_everything_may_slip():
    corridor = ("FFFF", "FHHF", "FFFF", "FFFG")
    assert policy(corridor, 0.8)[1, 0] == "left"  # at the wall: slides up or down, never into the hole on the right


@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
def test_the_oracle_knows_the_chance_and_takes_the_shortest_way(slip):
    env = agentgym.make("rlvr/FrozenLake-v0", slip=slip, difficulty=2)
    for seed in range(20):
        env.reset(seed=seed)
        shortest = env.distance[0, 0]
        for action in env.oracle():
            env.step(action)
        assert env.success is True and env.turn == shortest


def test_maps_grow_and_always_have_a_way():
    for difficulty in (0, 3, 9):
        for task in agentgym.make("rlvr/FrozenLake-v0", difficulty=difficulty).tasks(5):
            rows = task.data["lake"]
            side = 5 + difficulty
            assert [len(row) for row in rows] == [side] * side and rows[0][0] == "F" and rows[-1][-1] == "G"
            assert "".join(rows).count("H") == side * side // 5 and (0, 0) in distances(rows)


@pytest.mark.parametrize("slip", [-0.1, 1.1, float("nan")])
def test_slip_is_a_probability(slip):
    with pytest.raises(BadConfig, match="from 0 to 1"):
        agentgym.make("rlvr/FrozenLake-v0", slip=slip)
