"""BabyAI: what is seen, what commands do, and that every level is solved from anywhere."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import agentgym
from agentgym.errors import BadConfig, MissingExtra, UnknownName

pytest.importorskip("minigrid", reason="needs the extra `babyai`")

from agentgym.envs.babyai import bot, levels, view


def environment(**options):
    return agentgym.make("rlvr/BabyAI-v0", **options)


def test_the_view_is_told_as_it_is():
    level = levels.layout("OpenRedDoor", 3)
    core = __import__("minigrid.core.world_object", fromlist=["Key"])
    for i in range(1, 4):
        for j in range(1, 4):
            level.grid.set(i, j, None)
    level.agent_pos, level.agent_dir = (2, 3), 3  # looking up
    level.grid.set(1, 2, core.Key("blue"))
    level.grid.set(2, 1, core.Ball("red"))
    text = view.described(level)
    assert text.startswith(
        "You see a closed red door 2 to the right; a blue key 1 ahead and 1 to the left; a red ball 2 ahead."
    )
    rows = text.split("\n")[2:]
    assert len(rows) == 7 and rows[6][3] == "^" and rows[5][2] == "k" and rows[4][3] == "b" and rows[3][3] == "#"


def test_what_is_seen_is_what_the_package_shows():
    """Squares and sight equal `gen_obs_grid` along random walks, also with something carried and at the map's edge."""
    rng = random.Random(0)
    for name in ("GoToLocal", "OpenDoorsOrderN4", "KeyCorridorS3R2", "BossLevel", "PutNextS5N2Carrying"):
        level = levels.layout(name, 7)
        for _ in range(150):
            level.step(rng.choice([0, 1, 2, 2, 2, 3, 4, 5]))
            grid, mask = level.gen_obs_grid()
            cells, seen = view.in_view(level)
            size = level.agent_view_size
            assert [[bool(mask[i, j]) for i in range(size)] for j in range(size)] == seen
            for i, j in ((i, j) for i in range(size) for j in range(size) if seen[j][i] and (i, j) != (size // 2, size - 1)):
                mine, theirs = cells[j][i], grid.get(i, j)
                assert mine is theirs or mine.type == theirs.type == "wall", (name, i, j)


def test_layouts_are_each_their_own():
    for name in levels.known():
        if name not in levels.REFUSED:
            one = levels.layout(name, 1)
            before = one.pprint_grid(), one.mission, one.carrying
            two = levels.layout(name, 2)
            for action in random.Random(0).choices(range(6), k=40):
                two.step(action)
            assert (one.pprint_grid(), one.mission, one.carrying) == before, name
            assert levels.layout(name, 1).pprint_grid() == before[0]


def test_what_changes_nothing_is_invalid_and_explained():
    env = environment(level="UnlockLocal")
    env.reset(seed=1)
    for command, reason in (("drop", "not carrying anything"), ("fly", "not a command")):
        _, _, _, _, info = env.step(command)
        assert not info["valid"] and reason in info["error"]
    assert env.log == []


def test_a_box_that_was_needed_is_the_end():
    env = environment(level="PickupDistDebug")
    for number in range(40):
        task = env.numbered(number)
        if "box" in task.data["mission"] and task.data["mission"].startswith("pick up the"):
            break
    env.reset(options={"task": task})
    while env._running:
        command = next(env.oracle())
        _, reward, over, _, info = env.step("toggle" if command == "pick up" else command)
    assert over and reward == 0 and info["reason"] == "failure"


def test_levels_that_no_play_can_win_and_unknown_ones_are_refused():
    with pytest.raises(BadConfig, match="wrong second one"):
        environment(level="OpenDoorsOrderN2Debug")
    with pytest.raises(UnknownName, match="GoToLocal"):
        environment(level="GoToLocl")
    known = levels.known()
    assert {name for _, group in levels.LADDER for name in group} <= set(known)
    assert len(known) == 96


@pytest.mark.parametrize("level", ["KeyInBox", "PutNextS5N2Carrying", "PutNextS4N1", "UnlockPickupDist"])
def test_the_oracle_solves_what_the_bot_does_not(level):
    env = environment(level=level, horizon=2000)
    env.reset(seed=0, options={"task": 0})
    rng = random.Random(0)
    for _ in range(15):
        if env._running:
            env.step(rng.choice(env.admissible()))
    while env._running:
        env.step(next(env.oracle()))
    assert env.success


def test_difficulty_goes_on_above_the_ladder():
    top = len(levels.LADDER)
    task = environment(difficulty=top).numbered(0)
    assert task.data["level"] == "Boss+1" and task.data["rooms"].count("\n") + 1 == 4 * 7 + 1
    assert levels.horizon("", top + 1) > levels.horizon("", top) > levels.horizon("", top - 1)


def test_the_expert_does_not_look_behind_things():
    level = levels.layout("GoToLocal", 5)
    robot = bot.new_bot(level, all_seen=False)
    robot.vis_mask[:] = False
    assert robot._closest_wall_or_door_given_dir(level.agent_pos, level.right_vec) == 0


def test_without_the_package_one_sentence(monkeypatch):
    levels.known.cache_clear()
    monkeypatch.setattr(levels.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="minigrid package: "):
        environment(level="GoTo")
    levels.known.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", range(8))
def test_the_oracle_solves_two_hundred_tasks(difficulty):
    env = environment(difficulty=difficulty, split="test")
    for task in env.tasks(25):
        env.reset(seed=0, options={"task": task, "horizon": 5000})
        while env._running:
            env.step(next(env.oracle()))
        assert env.success, task.id


def test_environments_in_several_threads_are_each_their_own():
    tasks = environment(level="BossLevel").tasks(4)

    def begun(first):
        env = environment(level="BossLevel")
        return {task.id: env.reset(seed=0, options={"task": task})[0] for task in 3 * (tasks[first:] + tasks[:first])}

    alone = begun(0)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(begun, range(4))) == [alone] * 4


@pytest.mark.parametrize("name", ["GoToLocal", "PutNextLocal", "GoToSeq"])
def test_the_preset_published_ends_where_the_package_does(name: str) -> None:
    """minigrid 3.2.0 side by side: its limit follows from rooms and mission, and what changes nothing counts."""
    env = environment(preset="published", level=name)
    task = env.numbered(0)
    package = __import__("gymnasium").make(f"BabyAI-{name}-v0").unwrapped
    package.reset(seed=task.data["seed"])
    env.reset(options={"task": task})
    assert package.mission == task.data["mission"] and env.limit == package.max_steps != environment(level=name).horizon
    for turn in range(1, package.max_steps + 1):  # "drop" with empty hands: nothing changes
        truncated = package.step(4)[3]
        *_, over, info = env.step("drop")
        assert over == truncated == (turn == package.max_steps) and not info["valid"]
    assert info["reason"] == "horizon"
    assert environment(preset="published", level=name, horizon=7).limit_of(task) == 7


def test_an_evaluation_says_that_other_limits_are_not_the_packages() -> None:
    unlike = type(environment()).unlike_published
    assert unlike({}) == unlike({"level": "GoTo"}) != "" and unlike({"preset": "published", "horizon": 9})
    assert unlike({"preset": "published", "level": "GoTo"}) == "" == unlike({"package_limit": True})
