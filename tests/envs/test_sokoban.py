"""Sokoban by hand: what a push moves, what cannot be pushed, and plans that work."""

import pytest

import agentgym
from agentgym import Task
from agentgym.envs.sokoban import pushed, solution

ROOM = ("######", "#P_XO#", "#____#", "#_O_X#", "######")


def room(rows=ROOM, **options):
    env = agentgym.make("rlvr/Sokoban-v0", **options)
    env.reset(seed=0, options={"task": Task(data={"room": rows, "plan": ()}, id="mine")})
    return env


def test_a_game_by_hand():
    env = room()
    assert env.observation.endswith("\n######\n#P_XO#\n#____#\n#_O_X#\n######")
    assert env.info()["admissible"] == ["down", "right", "restart"]
    assert env.step("right")[0] == "######\n#_PXO#\n#____#\n#_O_X#\n######"
    assert env.step(" RIGHT ")[0] == "######\n#__P√#\n#____#\n#_O_X#\n######"
    assert env.info()["metrics"] == {"placed": 0.5}
    text, _, _, _, info = env.step("right")
    assert text.startswith("Something is in the way right.") and not info["valid"]
    assert env.step("restart")[0].startswith("######\n#P_XO#")


def test_the_last_box_wins_and_targets_show_through():
    env = room(("#####", "#PXO#", "#O__#", "#####"))
    assert env.step("down")[0] == "#####\n#_XO#\n#S__#\n#####"
    env.step("up")
    _, reward, terminated, _, info = env.step("right")
    assert (reward, terminated, info["success"]) == (0.0, False, None)  # two targets, one box
    env = room(("#####", "#PXO#", "#___#", "#####"))
    assert env.step("right")[1:4] == (1.0, True, False)


@pytest.mark.parametrize(("place", "word"), [((1, 1), "up"), ((1, 2), "right")])
def test_walls_and_boxes_behind_boxes_stop_a_push(place, word):
    rows = ("#####", "#__X#", "#####")
    assert pushed(rows, place, frozenset({(1, 3)}), word) is None
    assert pushed(("######", "#____#", "######"), (1, 1), frozenset({(1, 2), (1, 3)}), "right") is None


def test_solutions_are_found_and_stuck_boxes_are_not_searched():
    rows, targets = ("#####", "#___#", "#___#", "#___#", "#####"), frozenset({(2, 3)})
    assert solution(rows, targets, (2, 1), frozenset({(2, 2)})) == ("right",)
    assert solution(rows, targets, (2, 1), frozenset({(1, 1)})) is None


@pytest.mark.parametrize("difficulty", [0, 2, 6])
def test_every_room_can_be_solved_from_wherever_one_has_got(difficulty):
    env = agentgym.make("rlvr/Sokoban-v0", difficulty=difficulty, horizon=400)
    for task in env.tasks(4):
        env.reset(seed=1, options={"task": task})
        for word in ("left", "up", "up", "right"):
            if env.step(word)[2]:
                break
        while env.success is None:
            env.step(next(env.oracle()))
        assert env.success
