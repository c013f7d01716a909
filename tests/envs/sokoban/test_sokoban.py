"""Sokoban by hand: what a push moves, what cannot be pushed, and plans that work within the horizon."""

from collections import deque

import pytest

import agentgym
from agentgym import Task
from agentgym.envs.sokoban.rooms import MOVES, pushed
from agentgym.envs.sokoban.solver import POSITIONS, _frozen, solution

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


def fewest_pushes(room, targets, place, boxes):
    """Breadth first by pushes over single moves: slow, short and without a heuristic."""
    queue, seen = deque([(0, place, boxes)]), set()
    while queue:
        pushes, place, boxes = queue.popleft()
        if boxes == targets:
            return pushes
        if (place, boxes) in seen:
            continue
        seen.add((place, boxes))
        for word in MOVES:
            after = pushed(room, place, boxes, word)
            if after is not None:
                walk = after[1] == boxes
                (queue.appendleft if walk else queue.append)((pushes + (not walk), *after))
    return None


@pytest.mark.parametrize("difficulty", [0, 1])
def test_no_solution_has_fewer_pushes(difficulty):
    env = agentgym.make("rlvr/Sokoban-v0", difficulty=difficulty)
    for task in env.tasks(15):
        env.reset(seed=0, options={"task": task})
        place, boxes = env.start
        pushes = 0
        for word in solution(env.room, env.targets, place, boxes):
            before = boxes
            place, boxes = pushed(env.room, place, boxes, word)
            pushes += boxes != before
        assert boxes == env.targets and pushes == fewest_pushes(env.room, env.targets, *env.start)


@pytest.mark.parametrize(("difficulty", "tasks"), [(0, 20), (1, 20), (2, 20), (3, 20), (4, 20), (5, 20), (8, 6), (12, 2)])
def test_the_oracle_needs_no_more_than_the_horizon(difficulty, tasks):
    env = agentgym.make("rlvr/Sokoban-v0", difficulty=difficulty)
    for task in env.tasks(tasks):
        env.reset(seed=1, options={"task": task})
        while env.success is None:
            env.step(next(env.oracle()))
        assert env.success, (task.id, env.turn)


def test_wide_rooms_have_more_turns():
    env = agentgym.make("rlvr/Sokoban-v0")
    assert [env.limit_of(Task(data={"room": ("",) * side})) for side in (6, 10, 26)] == [60, 60, 156]
    assert agentgym.make("rlvr/Sokoban-v0", horizon=9).limit_of(Task(data={"room": ("",) * 26})) == 9


def test_boxes_that_can_never_move_are_found():
    square = ("######", "#____#", "#____#", "#____#", "#____#", "######")
    assert _frozen(square, frozenset({(2, 2), (2, 3), (3, 2), (3, 3)})) == {(2, 2), (2, 3), (3, 2), (3, 3)}
    assert _frozen(square, frozenset({(1, 2), (1, 3)})) == {(1, 2), (1, 3)}  # side by side at a wall
    assert _frozen(square, frozenset({(2, 2), (2, 3)})) == frozenset()
    assert _frozen(square, frozenset({(1, 1), (2, 3)})) == {(1, 1)}


def test_asking_again_after_each_move_never_turns_round():
    """Boxes in the way of one another, from every square the player can stand on."""
    rows = ("########", "#______#", "#_X__X_#", "#__OO__#", "#_X__O_#", "#_X__O_#", "#______#", "########")
    cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
    bare = tuple("".join("#" if sign == "#" else "_" for sign in row) for row in rows)
    targets, boxes = (frozenset(cell for cell, sign in cells.items() if sign == which) for which in "OX")
    for start in [cell for cell, sign in cells.items() if sign in "_O"][::5]:
        place, now, moves = start, boxes, 0
        while now != targets:
            place, now = pushed(bare, place, now, solution(bare, targets, place, now)[0])
            moves += 1
            assert moves <= 80
    assert POSITIONS <= 5000  # a search that finds nothing ends in less than a second


@pytest.mark.parametrize("difficulty", [2, 5])
def test_a_wrong_step_that_moves_no_box_costs_two_moves_at_most(difficulty):
    env = agentgym.make("rlvr/Sokoban-v0", difficulty=difficulty)
    for task in env.tasks(5):
        env.reset(seed=1, options={"task": task})
        plan = len(list(env.oracle()))
        walk = next(
            (w for w in MOVES if (moved := pushed(env.room, env.place, env.boxes, w)) and moved[1] == env.boxes), None
        )
        if walk is not None:
            env.step(walk)
            assert len(list(env.oracle())) <= plan + 1
