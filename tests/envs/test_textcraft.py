"""TextCraft by hand: amounts, multiples, and what is missing."""

import agentgym
from agentgym import Task
from agentgym.envs.textcraft import written

RECIPES = [("oak lamp", 1, {"oak rod": 3, "sand": 1}), ("oak rod", 2, {"oak log": 1}), ("tin bead", 1, {"sand": 2})]


def begun(**options):
    env = agentgym.make("rlvr/TextCraft-v0", **options)
    env.reset(seed=0, options={"task": Task(data={"recipes": RECIPES, "goal": "oak lamp"}, id="mine")})
    return env


def test_an_episode_by_hand():
    env = begun()
    assert "craft 2 oak rod using 1 oak log\n" in env.observation and "Goal: craft oak lamp." in env.observation
    assert list(env.oracle()) == [
        "get 2 oak log",
        "get 1 sand",
        "craft 4 oak rod using 2 oak log",
        "craft 1 oak lamp using 3 oak rod, 1 sand",
    ]
    assert env.step("get 3 oak log")[0] == "Got 3 oak log."
    assert env.step("Craft 2 oak rod using  1 oak log")[0] == "Crafted 2 oak rod."
    assert env.step("inventory")[0] == "You have 2 oak log, 2 oak rod."
    assert list(env.oracle())[:2] == ["get 1 sand", "craft 2 oak rod using 1 oak log"]
    env.step("get 1 sand")
    env.step("craft 2 oak rod using 1 oak log")
    assert env.step("craft 1 oak lamp using 1 sand, 3 oak rod")[:3] == ("Crafted 1 oak lamp.", 1.0, True)


def test_what_is_wrong_is_said():
    env = begun()
    for action, error in {
        "get 1 oak rod": "You cannot get oak rod: it must be crafted.",
        "get 1 gold": "There is no gold here.",
        "craft 1 gold using 1 sand": "No command crafts gold.",
        "craft 3 oak rod using 1 oak log": "That is not how oak rod is crafted. Use craft 2 oak rod using 1 oak log",
        "craft 2 oak rod using 1 oak log, 1 oak log": "That is not how oak rod is crafted.",
        "craft 2 oak rod using 1 oak log": "You do not have enough oak log: 0 of 1.",
        "get 0 sand": "'get 0 sand' is not a command.",
        "get 99999 sand": "'get 99999 sand' is not a command.",
        "craft 2 oak rod": "'craft 2 oak rod' is not a command.",
        "get 1 oak log using 1 sand": "'get 1 oak log using 1 sand' is not a command.",
    }.items():
        text, _, _, _, info = env.step(action)
        assert text.startswith(error) and not info["valid"], action
    assert env.step("inventory")[0] == "You have nothing."


def test_no_more_can_be_carried_than_the_goal_needs_and_a_quarter():
    env = begun()  # 2 logs and 1 sand, then 4 rods and 1 sand: 5 at most, 1 for the quarter, 1 more
    assert "You can carry at most 7 items." in env.observation
    assert env.step("get 8 sand")[4]["error"] == "You are carrying 0 of at most 7 items: get 7 or fewer, or drop some first."
    assert env.step("get 6 sand")[4]["valid"] and env.step("get 1 oak log")[4]["valid"]
    text, *_, info = env.step("craft 2 oak rod using 1 oak log")
    assert text == "You would carry 8 items, but the limit is 7." and not info["valid"]
    assert (
        env.step("drop 9 sand")[0] == "You have 6 sand, not 9." and env.step("drop 1 gold")[0] == "You have 0 gold, not 1."
    )
    assert env.step("drop 4 sand")[0] == "Dropped 4 sand."
    assert env.step("inventory")[0] == "You have 1 oak log, 2 sand."
    assert next(env.oracle()) == "get 1 oak log"


def test_the_oracle_drops_what_is_in_the_way():
    env = begun()
    env.step("get 7 sand")
    plan = list(env.oracle())
    assert plan[:2] == ["drop 6 sand", "get 2 oak log"]
    assert [env.step(action)[1] for action in plan][-1] == 1.0


def test_taking_everything_and_crafting_every_line_is_not_enough():
    env = agentgym.make("rlvr/TextCraft-v0")
    for name, policy in env.shortcuts().items():
        solved = 0
        for task in env.tasks(60):
            seen = [env.reset(seed=0, options={"task": task})[0]]
            over = False
            while not over:
                observation, _, terminated, truncated, _ = env.step(policy(seen))
                seen.append(observation)
                over = terminated or truncated
            solved += env.success
        assert solved <= 60 * env.declared.ceilings.get(name, 0.0), name


def test_multiples_are_written_out():
    assert written("oak rod", (2, {"oak log": 1, "sand": 3}), 3) == "craft 6 oak rod using 3 oak log, 9 sand"


def test_deep_trees_stay_within_what_can_be_held():
    env = agentgym.make("rlvr/TextCraft-v0", difficulty=20, horizon=200)
    for task in env.tasks(10):
        env.reset(seed=0, options={"task": task})
        while env.success is None:
            env.step(next(env.oracle()))
        assert env.success, task.id


def test_there_is_no_highest_difficulty():
    env = agentgym.make("rlvr/TextCraft-v0", difficulty=500, horizon=1000)
    env.reset(seed=0)
    assert [env.step(action)[1] for action in env.oracle()][-1] == 1.0
