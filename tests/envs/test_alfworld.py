"""Game files and data folders: what is read, what is left out, what is said of what is broken."""

import json
import random
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from household_files import DOMAIN, GRAMMAR, OLD_GRAMMAR, PROBLEM, game_text, write_game

import agentgym
from agentgym.envs.alfworld import ALFWorld, parse_game
from agentgym.envs.household import Household
from agentgym.envs.household.export import export_game, old_generation
from agentgym.errors import BadConfig, BadData, UnknownName


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "json_2.1.1"
    kind = "pick_cool_then_place_in_recep"
    for split, count in (("train", 3), ("valid_seen", 2), ("valid_unseen", 1)):
        for number in range(count):
            write_game(root / split / f"{kind}-Apple-None-Shelf-{number}" / "trial_T1")
    train = root / "train"
    write_game(train / "pick_and_place_with_movable_recep-Apple" / "trial_T1")
    write_game(train / "pick_cool-AppleSliced-None" / "trial_T1")
    write_game(train / "unsolvable" / "trial", text=game_text(solvable=False))
    write_game(train / "unchecked" / "trial", text=json.dumps({"pddl_problem": ""}))
    write_game(train / "other" / "trial", kind="look_at_obj_in_light")
    (train / "half" / "trial").mkdir(parents=True)
    (train / "half" / "trial" / "traj_data.json").write_text('{"task_type": "pick_and_place_simple"}')
    return tmp_path


def test_a_folder_gives_its_published_splits(data: Path):
    env = agentgym.make("rlvr/ALFWorld-v0", data=data, types=("pick_cool_then_place_in_recep",))
    ids = [task.id for task in env.tasks(3)]
    assert ids == [f"train/pick_cool_then_place_in_recep-Apple-None-Shelf-{n}/trial_T1" for n in range(3)]
    assert len(env.tasks(2, "valid_seen")) == 2
    with pytest.raises(BadConfig, match="has 1 games; 2 were asked for"):
        env.tasks(2, "valid_unseen")
    task = env.find("valid_unseen/pick_cool_then_place_in_recep-Apple-None-Shelf-0/trial_T1")
    assert (task.split, task.data["type"]) == ("valid_unseen", "pick_cool_then_place_in_recep")
    assert task.instruction == "cool some apple and put it in shelf"
    observation, info = env.reset(options={"task": task.id}, seed=0)
    assert observation.endswith("Your task is to: cool some apple and put it in shelf.") and info["task_id"] == task.id


def test_task_types_go_by_number_too(data: Path):
    assert len(ALFWorld(data=data, types=(5, 2)).tasks(4)) == 4
    with pytest.raises(UnknownName, match="pick_two_obj_and_place"):
        ALFWorld(data=data, types=("pick_two_objects",))


def test_a_folder_can_be_named_by_the_environment(data: Path, monkeypatch: pytest.MonkeyPatch):
    (data / "json_2.1.1").rename(data / "alfworld")
    monkeypatch.setenv("AGENTGYM_DATA", str(data))
    assert ALFWorld().tasks(3)
    monkeypatch.delenv("AGENTGYM_DATA")
    with pytest.raises(BadConfig, match="data=PATH"):
        ALFWorld()


def test_wrong_folders(data: Path):
    with pytest.raises(BadConfig, match="does not exist"):
        ALFWorld(data=data / "nowhere")
    with pytest.raises(BadData, match="no folder 'train'"):
        ALFWorld(data=data / "json_2.1.1" / "train")
    with pytest.raises(UnknownName, match="game of ALFWorld"):
        ALFWorld(data=data).find("train/nothing")


def test_a_file_alone_is_a_world(data: Path):
    path = data / "json_2.1.1/valid_unseen/pick_cool_then_place_in_recep-Apple-None-Shelf-0/trial_T1/game.tw-pddl"
    env = ALFWorld(data=path)
    _, info = env.reset(seed=3)
    assert info["task_id"] == "trial_T1" and env.task.data["type"] == "pick_cool_then_place_in_recep"
    for command in env.oracle():
        _, reward, terminated, _, _ = env.step(command)
    assert (reward, terminated) == (1.0, True)


def test_expert_and_oracle_solve_the_odd_house():
    game = game_text()
    for name in ("oracle", "expert"):
        env = _lone(game, name)
        for _ in range(30):
            _, reward, terminated, _, _ = env.step(next(getattr(env, name)()))
            if terminated:
                break
        assert reward == 1, name


def _lone(text: str, name: str) -> ALFWorld:
    """Return the world of one game, begun; its file is gone again."""
    with tempfile.TemporaryDirectory() as folder:
        env = ALFWorld(data=write_game(Path(folder) / name, text=text))
        env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (game_text()[:-50], r"line 1 column \d+"),
        ("[1]", "a JSON list"),
        ("{}", "no text under 'pddl_domain'"),
        (game_text(grammar="grammar"), "no rule 'task'"),
        (game_text(grammar=GRAMMAR.replace("PutObject {", "Put {")), "no known action PutObject"),
        (game_text(problem=PROBLEM.replace("(:init", "(:start")), r"no \(:init …\) section"),
        (game_text(problem=PROBLEM[:-60]), "never closed"),
        (
            game_text(problem=PROBLEM.replace("(openable Drawer_bar_1)", "(openable (Drawer_bar_1))")),
            r"line \d+ of the problem",
        ),
        (game_text(problem=PROBLEM.replace("(openable Drawer_bar_1)", "openable Drawer_bar_1")), "expected a fact"),
        (game_text(problem=PROBLEM.replace("(openable Drawer_bar_1)", "(openable Drawer_bar_9)")), "'drawer_bar_9'"),
        (game_text(problem=PROBLEM.replace("isCool ?o", "isGone ?o")), "none of ALFWorld's six"),
        (game_text(problem=PROBLEM.replace("(atLocation agent1 loc_bar_0_bar_0)", "")), "the agent is nowhere"),
    ],
)
def test_broken_files_say_where_and_what(text: str, message: str):
    with pytest.raises(BadData, match=message) as caught:
        parse_game(text.encode(), "some/game.tw-pddl")
    assert "some/game.tw-pddl" in str(caught.value)


def test_the_line_of_a_broken_fact_is_counted():
    broken = PROBLEM.replace("(openable Fridge_bar_1)", "openable Fridge_bar_1)")
    line = 1 + broken[: broken.index("openable Fridge_bar_1)")].count("\n")
    with pytest.raises(BadData, match=f"line {line} of the problem"):
        parse_game(game_text(problem=broken).encode(), "game")


def test_bytes_that_are_no_text():
    with pytest.raises(BadData, match="not UTF-8"):
        parse_game(b'{"pddl_domain": "\xff"}', "game")


def test_both_generations_by_the_known_patch():
    domain, grammar = old_generation(DOMAIN, GRAMMAR)
    assert "help" not in grammar and "(:action help" not in domain
    assert (
        parse_game(game_text(domain, grammar).encode(), "a").dialect
        == parse_game(game_text(grammar=OLD_GRAMMAR).encode(), "b").dialect
    )
    with pytest.raises(BadData, match="of ALFWorld"):
        old_generation(domain, grammar)


def test_an_exported_house_plays_like_the_generated_one(tmp_path: Path):
    made = Household(together=0.4, horizon=500)
    rng = random.Random(0)
    for number in range(12):
        task = made.numbered(number)
        grammar = GRAMMAR.replace("TASK", "UNKNOWN GOAL")
        read = ALFWorld(data=export_game(task, tmp_path / str(number), DOMAIN, grammar), horizon=500)
        ours, _ = made.reset(options={"task": task}, seed=0)
        theirs, _ = read.reset(seed=0)
        assert ours == theirs
        for _ in range(60):
            if made.success is not None:
                break
            command = rng.choice([*made.admissible(), "use nothing 1"])
            if command == "help":
                continue
            one, two = made.step(command), read.step(command)
            assert one[:4] == two[:4] and one[4]["admissible"] == two[4]["admissible"]


def test_a_game_won_at_the_start_ends_at_the_first_step():
    won = PROBLEM.replace("(cleanable Apple_bar_1)", "(isCool Apple_bar_1) (inReceptacle Apple_bar_1 Shelf_bar_1)")
    env = _lone(game_text(problem=won), "won")
    text, reward, terminated, _, info = env.step("nonsense")
    assert (text, reward, terminated, info["success"]) == ("Nothing happens.", 1.0, True, True)


@pytest.mark.parametrize(
    "place",
    ["(inReceptacle ?ot ?r) (receptacleAtLocation ?r ?l)", "(objectAtLocation ?ot ?l)"],
    ids=["receptacle", "location"],
)
def test_light_is_looked_at_in_both_known_wordings(place: str):
    goal = f"""(:goal (and (exists (?o - object ?a - agent) (and (holds ?a ?o) (objectType ?o BookType)))
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and {place} (isToggled ?ot) (toggleable ?ot)
        (atLocation ?a ?l) (objectType ?ot DeskLampType)))))"""
    env = _lone(game_text(problem=PROBLEM[: PROBLEM.index("(:goal")] + goal + ")"), "light")
    assert env.task.data["type"] == "look_at_obj_in_light"
    plan = list(env.oracle())
    assert plan == ["go to shelf 2", "take book 2 from shelf 2", "go to drawer 1", "use desklamp 1"]
    for command in plan:
        reward = env.step(command)[1]
    assert reward == 1


def test_an_object_in_two_places_stays_listed_in_the_other():
    twice = PROBLEM.replace("(cleanable Apple_bar_1)", "(inReceptacle Apple_bar_1 Shelf_bar_1)")
    env = _lone(game_text(problem=twice), "twice")
    for command in ("go to shelf 2", "take apple 1 from shelf 2", "go to fridge 1"):
        assert env.step(command)[4]["valid"]
    assert env.step("open fridge 1")[0].endswith("you see a apple 1.")
