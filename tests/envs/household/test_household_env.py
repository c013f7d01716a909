"""The generated houses: tasks, splits, oracle, expert, keys, snapshots."""

import pickle
import random
import tracemalloc
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.household import Household
from agentgym.envs.household.advise import Memory, advise
from agentgym.envs.household.catalog import CAN_CONTAIN, TASK_TYPES
from agentgym.envs.household.env import RECENT, _recent, generated_game
from agentgym.envs.household.export import export_game, problem_pddl
from agentgym.envs.household.goals import goal_pddl, read_goal
from agentgym.envs.household.houses import goal_of, make_problem
from agentgym.envs.household.play import Play
from agentgym.envs.household.problem import parse_tree, read_problem
from agentgym.envs.household.solve import solve

PRESETS = (None, "tiny", "easy", "full")


def environment(preset: str | None = None, **options: object) -> Household:
    return Household(preset=preset, **options)


def wander(env: Household, rng: random.Random, steps: int) -> bool:
    """Play random commands; return whether the episode still runs."""
    for _ in range(steps):
        commands = env.admissible()
        doing = [c for c in commands if c.startswith(("take", "move", "open", "heat", "cool", "clean"))]
        _, _, terminated, truncated, _ = env.step(rng.choice(doing if doing and rng.random() < 0.6 else commands))
        if terminated or truncated:
            return False
    return True


@pytest.mark.parametrize("preset", PRESETS)
def test_oracle_solves_every_task_from_the_start(preset: str | None):
    env = environment(preset)
    seen: set[str] = set()
    for number in range(40):
        env.reset(options={"task": number}, seed=0)
        assert not env.play.won()
        seen.add(env.task.data["type"])
        plan = list(env.oracle())
        for command in plan[:-1]:
            _, reward, terminated, _, info = env.step(command)
            assert info["valid"] and not terminated and reward == 0
        _, reward, terminated, _, info = env.step(plan[-1])
        assert (reward, terminated, info["reason"]) == (1.0, True, "success")
    assert seen == set(env.types)


@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 10**6), preset=st.sampled_from(PRESETS), seed=st.integers(0, 10**6), steps=st.integers(0, 40))
def test_oracle_and_expert_recover_from_any_deviation(number: int, preset: str | None, seed: int, steps: int):
    env = environment(preset, horizon=10_000)
    env.reset(options={"task": number}, seed=0)
    if not wander(env, random.Random(seed), steps):
        return
    state = env.snapshot()
    for command in env.oracle():
        _, reward, _, _, info = env.step(command)
        assert info["valid"], (command, info["error"])
    assert reward == 1
    env.restore(state)
    for _ in range(250):
        _, reward, terminated, _, _ = env.step(next(env.expert()))
        if terminated:
            break
    assert reward == 1


@pytest.mark.parametrize("preset", PRESETS)
def test_expert_wins_within_the_horizon(preset: str | None):
    env = environment(preset)
    won, count = 0, 40
    for number in range(count):
        env.reset(options={"task": env.numbered(number, "valid_unseen")}, seed=0)
        terminated = truncated = False
        while not (terminated or truncated):
            _, reward, terminated, truncated, _ = env.step(next(env.expert()))
        won += reward == 1
    assert won >= count - 1


def test_expert_knows_nothing_it_was_not_shown():
    """Houses that differ only in what has not been seen yet bring the same expert command."""
    env = environment("easy", together=0.3)
    rng = random.Random(0)
    checked = 0
    for number in range(80):
        task = env.numbered(number)
        game = generated_game(task)
        play, memory = Play(game), Memory()
        for _ in range(rng.randrange(6)):
            command = advise(play, memory)
            memory.notice(play, command, play.act(command) is not None)
        hidden = [r for r in range(len(game.receptacles)) if not memory.viewed >> r & 1]
        twin = Play(game)
        twin.load(play.save())
        for r in hidden:  # what nobody looked into may just as well hold other things, and shut or open
            twin.contents[r] = tuple(o for o in twin.contents[r] if memory.handled >> o & 1)
            if not memory.probed >> r & 1:
                twin.opened ^= 1 << r & game.openable
        assert advise(play, memory) == advise(twin, memory)
        checked += len(hidden)
    assert checked > 200


def test_splits_are_disjoint_by_layout_and_by_content():
    env = environment("easy")
    tasks = {split: [env.numbered(n, split) for n in range(50)] for split in env.splits}
    layouts = {split: {tuple(task.data["layout"]) for task in found} for split, found in tasks.items()}
    assert not layouts["valid_unseen"] & (layouts["train"] | layouts["valid_seen"])
    contents = {split: {repr((t.instruction, t.data)) for t in found} for split, found in tasks.items()}
    assert not contents["train"] & contents["valid_seen"]
    for split, found in tasks.items():
        assert all(env.split_of(task) == split for task in found)


def test_valid_seen_has_layouts_of_train():
    env = environment("tiny")
    train = {tuple(env.numbered(n, "train").data["layout"]) for n in range(1200)}
    seen = [tuple(env.numbered(n, "valid_seen").data["layout"]) for n in range(50)]
    assert sum(layout in train for layout in seen) > 20, "layouts of valid_seen and train come from the same pool"


def test_difficulty_has_no_end():
    sizes = []
    for difficulty in (0, 2, 12):
        env = environment(difficulty=difficulty)
        env.reset(options={"task": 3}, seed=0)
        sizes.append((len(env.play.game.receptacles), len(env.play.game.objects)))
        assert list(env.oracle())
    assert sizes == sorted(sizes) and sizes[-1][0] >= 58


def test_every_object_lies_where_its_class_may():
    for number in range(50):
        task = environment().numbered(number)
        layout = [entry.rsplit(" ", 1)[0] for entry in task.data["layout"]]
        for entry in task.data["objects"]:
            kind, where = entry.rsplit(" ", 1)
            assert kind in CAN_CONTAIN[layout[int(where)]] or kind in ("DeskLamp", "FloorLamp")


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 10**6), seed=st.integers(0, 10**6))
def test_keys_and_saved_states_are_exact(number: int, seed: int):
    """Equal keys mean equal states, whatever the path; a state comes back from its bytes and goes on the same way."""
    env, rng = environment("easy", together=0.4, horizon=10_000), random.Random(seed)
    env.reset(options={"task": number}, seed=0)
    seen: dict[str, object] = {}
    for _ in range(60):
        state = repr(env.state())
        assert seen.setdefault(env.state_key(), state) == state
        if not wander(env, rng, 1):
            break
    assert len(set(map(repr, seen.values()))) == len(seen)
    other = environment("easy").restore(pickle.loads(pickle.dumps(env.snapshot())))
    assert (other.state(), other.state_key(), other.admissible()) == (env.state(), env.state_key(), env.admissible())


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 10**6), seed=st.integers(0, 10**6))
def test_exactly_the_admissible_commands_are_accepted(number: int, seed: int):
    env, rng = environment("tiny", horizon=10_000), random.Random(seed)
    env.reset(options={"task": number}, seed=0)
    if not wander(env, rng, rng.randrange(12)):
        return
    state, admissible, game = env.snapshot(), set(env.admissible()), env.play.game
    for command in sorted(admissible):
        assert env.step(command)[4]["valid"]
        env.restore(state)
    wrong = [f"go to {r}" for r in game.receptacles] + [f"take {o} from {r}" for o in game.objects for r in game.receptacles]
    for command in set(wrong) - admissible:
        text, _, _, _, info = env.step(command)
        assert (text, info["valid"]) == ("Nothing happens.", False) and info["error"]
        env.restore(state)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_goal_survives_pddl(kind: str):
    for number in range(10):
        goal = goal_of(environment(types=(kind,)).numbered(number))
        read = read_goal(parse_tree(goal_pddl(goal).lower(), 0, "goal"))
        assert (read.type, read.object, read.receptacle, read.lamp) == (
            kind,
            goal.object.lower(),
            goal.receptacle.lower(),
            goal.lamp.lower(),
        )


def test_a_written_problem_reads_back():
    task = environment("full").numbered(0)
    problem = make_problem(task)
    read = read_problem(problem_pddl(problem, goal_of(task), "x"))
    lower = problem.lower()
    assert read.types == lower.types
    assert read.facts == {name: facts for name, facts in lower.facts.items() if facts}


def test_sentences_never_leak_the_answer_and_data_is_json():
    import json

    task = environment().numbered(1)
    assert json.loads(json.dumps(task.data)) == task.data
    assert task.data["type"] in TASK_TYPES


def test_an_environment_is_small():
    env = environment("full", receptacles=(38, 38), objects=(48, 48), horizon=10_000)
    task = env.numbered(5)
    env.reset(options={"task": task}, seed=0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    second = environment("full", receptacles=(38, 38), objects=(48, 48), horizon=10_000)
    second.reset(options={"task": task}, seed=0)
    wander(second, random.Random(0), 300)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 500_000


def test_bad_options_say_what_is_right():
    with pytest.raises(agentgym.BadConfig, match="FEWEST at least 4"):
        environment(receptacles=(1, 2))
    with pytest.raises(agentgym.BadConfig, match="types of Household is empty"):
        environment(types=())
    with pytest.raises(agentgym.UnknownName, match="pick_heat_then_place_in_recep"):
        environment(types=("pick_heat_then_place",))
    with pytest.raises(agentgym.BadConfig, match="chance"):
        environment(together=1.0)
    with pytest.raises(agentgym.BadConfig, match="at least 4"):
        environment(layouts=3)


def test_attempts_of_a_group_share_one_game():
    env = environment("full")
    env.reset(options={"task": 1}, seed=0)
    first = env.play.game
    env.reset(options={"task": env.numbered(1)}, seed=1)
    assert env.play.game is first


def test_plans_are_short():
    """`put`, `clean`: go, open, take, go, clean, go, open, put at most; pick-two twice that at most."""
    for number in range(60):
        play = Play(generated_game(environment("full").numbered(number)))
        assert len(list(islice(solve(play), 13))) <= (12 if play.game.goal.count == 2 else 8)


def test_exported_games_hold_the_given_texts(tmp_path):
    import json

    task = environment("tiny").numbered(0)
    path = export_game(task, tmp_path / "a" / "b", "DOMAIN", "Your task is to: UNKNOWN GOAL.")
    content = json.loads(path.read_text())
    assert content["pddl_domain"] == "DOMAIN" and content["grammar"] == f"Your task is to: {task.instruction}."
    assert content["solvable"] is True and content["walkthrough"]
    assert any(command.startswith("move ") for command in content["walkthrough"])
    older = export_game(task, tmp_path / "old", "DOMAIN", 'Your task is to: UNKNOWN GOAL. template :: "put {o} in/on {r}";')
    puts = [command for command in json.loads(older.read_text())["walkthrough"] if command.startswith(("put ", "move "))]
    assert puts and all(command.startswith("put ") and " in/on " in command for command in puts)
    assert json.loads((path.parent / "traj_data.json").read_text())["task_type"] == task.data["type"]


def test_recent_games_are_shared_by_task_and_few_are_kept():
    env = environment("tiny")
    task, other = env.numbered(0), env.numbered(1)
    game = generated_game(task)
    assert generated_game(replace(task)) is game  # an equal task of another attempt
    changed = replace(other, id=task.id)
    assert generated_game(changed).intro == generated_game(other).intro != game.intro  # the id alone decides nothing
    for number in range(2, 2 + 2 * RECENT):
        generated_game(env.numbered(number))
    assert len(_recent) == RECENT
