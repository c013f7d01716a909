"""Credits for several roles and kinds of tasks, by hand: SPIRAL's baseline by episode, MARS, Task-Relative REINFORCE++."""

import numpy as np
import pytest
from credit_envs import episode

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import resolve


class Process:
    """One of several processes; what the others have is known from the start."""

    def __init__(self, rank, *parts):
        self.rank, self.parts = rank, parts
        self.gathers = 0

    def gather(self, items):
        self.gathers += 1
        every = [part[self.gathers - 1] for part in self.parts]
        assert every[self.rank] == items
        return [item for part in every for item in part]


def lists(found):
    return [[array.tolist() for array in arrays] for arrays in found]


def test_spirals_baseline_moves_with_every_episode():
    credit = resolve("role_baseline", decay=0.5, every="episode")
    x = Group("t", "X", [episode(("a", 0), reward=1.0), episode(("a", 0), reward=0.0)])
    o = Group("t", "O", [episode(("a", 0), reward=-1.0), episode(("a", 0), reward=1.0)])
    # X: b = 0.5, then 0.25. O: b = -0.5, then 0.25
    assert lists(credit([x, o])) == [[[0.5], [-0.25]], [[-0.5], [0.75]]]
    # X: b = 0.5 * 0.25 + 0.5 * 1 = 0.625
    assert lists(credit([Group("t", "X", x.episodes[:1])])) == [[[0.375]]]
    assert credit.stage.state_dict() == {"e X": 0.625, "e O": 0.25}


def test_spirals_baseline_goes_through_the_processes_in_order():
    x = Group("t", "X", [episode(("a", 0), reward=1.0)])
    mine, theirs = [("e X", 1.0)], [("e X", 0.0), ("e X", 2.0)]
    first, second = (resolve("role_baseline", decay=0.5, every="episode") for _ in range(2))
    object.__setattr__(first, "run", Process(0, (mine, [1]), (theirs, [2])))
    assert lists(first([x])) == [[[0.5]]]  # before theirs: b = 0.5
    object.__setattr__(second, "run", Process(1, (theirs, [2]), (mine, [1])))
    assert lists(second([x])) == [[[1 - 1.0]]]  # b = 0, 1, then 0.5 * 1 + 0.5 * 1
    assert second.stage.state_dict() == {"e X": 1.0} and first.stage.state_dict() == {"e X": 1.125}


def self_play():
    """Two games of X and O: returns from each turn on are X 1, 1 and -1; O -1 and 0.5, 0.5."""
    games = (
        [episode(("a", 0), ("b", 1)), episode(("a", -1))],
        [episode(("a", 0), reward=-1.0), episode(("a", 0), ("b", 0.5))],
    )
    return [Group("t", "X", games[0]), Group("t", "O", games[1])]


def test_mars_by_hand():
    # X: mean of 1, 1, -1 is 1/3; O: mean of -1, 0.5, 0.5 is 0
    found = lists(resolve("mars")(self_play()))
    assert np.allclose(found[0][0], [2 / 3, 2 / 3]) and np.allclose(found[0][1], [-4 / 3])
    assert np.allclose(found[1][0], [-1]) and np.allclose(found[1][1], [0.5, 0.5])
    # spread of X: sqrt((2 * 4/9 + 16/9) / 3) = sqrt(8/9)
    assert np.allclose(lists(resolve("mars", norm="std", eps=0.0)(self_play()))[0][1], [-(4 / 3) / (8 / 9) ** 0.5])
    # gamma 0.5: X has 0.5, 1, -1
    assert np.allclose(lists(resolve("mars", gamma=0.5)(self_play()))[0][0], [0.5 - 1 / 6, 1 - 1 / 6])


def test_mars_compares_a_role_with_itself_and_over_the_groups():
    x, o = self_play()
    halves = [Group("t", "X", x.episodes[:1]), Group("u", "X", x.episodes[1:])]
    assert lists(resolve("mars")(halves)) == [[lists(resolve("mars")([x]))[0][0]], [lists(resolve("mars")([x]))[0][1]]]
    always = [episode(("a", 0), reward=1.0) for _ in range(3)], [episode(("a", 0), reward=-1.0) for _ in range(3)]
    found = lists(resolve("mars")([Group("t", "X", always[0]), Group("t", "O", always[1])]))
    assert found == [[[0.0]] * 3] * 2  # who always wins learns nothing from it, nor does who always loses
    assert o.role == "O"


def test_processes_share_mars_statistics():
    x, o = self_play()
    whole = lists(resolve("mars")([x, o]))
    of_x, of_o = ([("e X", [1.0, 1.0]), ("e X", [-1.0])],), ([("e O", [-1.0]), ("e O", [0.5, 0.5])],)
    credit = resolve("mars")
    object.__setattr__(credit, "run", Process(1, of_x, of_o))
    assert lists(credit([o])) == [whole[1]]


def typed(kind, *rewards):
    made = [episode(("a", 0), ("b", 0), reward=reward) for reward in rewards]
    for each in made:
        each.labels["type"] = kind
    return made


def test_task_relative_by_hand():
    deduction, induction = typed("deduction", 1.0, 0.0, 0.5), typed("induction", 0.0, 2.0)
    groups = [Group("t", "agent", deduction[:2]), Group("u", "agent", [*deduction[2:], *induction])]
    found = lists(resolve("task_relative", eps=0.0)(groups))
    spread = (1 / 6) ** 0.5  # of 1, 0, 0.5
    assert np.allclose(found[0], [[0.5 / spread] * 2, [-0.5 / spread] * 2])
    assert np.allclose(found[1], [[0, 0], [-1, -1], [1, 1]])
    assert np.allclose(lists(resolve("task_relative", norm="mean")(groups))[1], [[0, 0], [-1, -1], [1, 1]])


@pytest.mark.parametrize("name", ["mars", "task_relative"])
def test_no_groups_and_no_spread_are_no_trouble(name):
    assert resolve(name)([]) == []
    assert lists(resolve(name)([Group("t", "X", [episode(("a", 1))])])) == [[[0.0]]]


def test_advantages_of_a_pool_sum_to_nothing():
    rng = np.random.default_rng(0)
    games = [episode(*((str(k), float(r)) for k, r in enumerate(rng.normal(size=rng.integers(1, 5))))) for _ in range(9)]
    found = lists(resolve("mars")([Group("t", "X", games[:4]), Group("u", "X", games[4:])]))
    assert abs(sum(sum(array) for arrays in found for array in arrays)) < 1e-9
