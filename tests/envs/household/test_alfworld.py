"""Game files and data folders: what is read, what is left out, what is said of what is broken."""

import json
import os
import random
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from household_files import DOMAIN, GRAMMAR, OLD_GRAMMAR, PROBLEM, game_text, write_game

import agentgym
from agentgym.cli import main
from agentgym.core.folders import below
from agentgym.envs.household import Household, index
from agentgym.envs.household.alfworld import ALFWorld, parse_game
from agentgym.envs.household.export import export_game, old_generation, patched_generation
from agentgym.envs.household.text import HELP
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
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(data / "nobody"))
    with pytest.raises(BadConfig, match="data=PATH"):
        ALFWorld()


def test_where_the_published_tools_put_the_data_it_is_found(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(data / "nobody"))
    with pytest.raises(BadConfig, match=r"nobody/.cache/alfworld does not exist.*ALFWORLD_DATA"):
        ALFWorld()
    monkeypatch.setenv("HOME", str(data))
    (data / ".cache").mkdir()
    (data / ".cache/alfworld").symlink_to(data)
    assert ALFWorld().tasks(3)
    monkeypatch.setenv("PLACE", str(data))
    monkeypatch.setenv("ALFWORLD_DATA", "$PLACE")
    (data / ".cache/alfworld").unlink()
    assert ALFWorld().tasks(3) == ALFWorld(data="$PLACE/json_2.1.1").tasks(3) == ALFWorld(data="~").tasks(3)
    monkeypatch.setenv("AGENTGYM_DATA", str(data / "nowhere"))
    assert ALFWorld().tasks(3)


def test_valid_train_is_a_split_where_it_is_there(data: Path):
    with pytest.raises(BadData, match="no folder 'valid_train'"):
        ALFWorld(data=data, split="valid_train")
    assert list(ALFWorld(data=data).splits) == ["train", "valid_seen", "valid_unseen"]
    write_game(data / "json_2.1.1/valid_train/pick/trial")
    env = ALFWorld(data=data, split="valid_train")
    assert [task.id for task in env.tasks(1)] == ["valid_train/pick/trial"] and "valid_train" in env.splits


@pytest.mark.parametrize("text", ['{"task_type": "pick_and', '{"task_type": 3}', "[]", '{"type": "x"}', "\x00"])
def test_a_broken_annotation_is_named(data: Path, text: str):
    path = data / "json_2.1.1/train/other/trial/traj_data.json"
    path.write_text(text)
    with pytest.raises(BadData, match=r"other/trial/traj_data.json: .*expected the description of an ALFRED traj"):
        ALFWorld(data=data)


def test_the_list_of_games_is_kept_and_only_what_changed_is_read_again(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(data / "kept"))
    read: list[str] = []

    def counted(path: Path) -> bytes:
        if path.name in ("game.tw-pddl", "traj_data.json"):
            read.append(path.parent.parent.name)
        return path.open("rb").read()

    monkeypatch.setattr(Path, "read_bytes", counted)
    before = ALFWorld(data=data).up_to(9)
    assert len(read) == 2 * 6 and ALFWorld(data=data).up_to(9) == before and len(read) == 2 * 6
    write_game(data / "json_2.1.1/train/added/trial")
    changed = data / "json_2.1.1/train/other/trial/traj_data.json"
    changed.write_text(json.dumps({"task_type": "pick_heat_then_place_in_recep"}))
    del read[:]
    after = ALFWorld(data=data).up_to(9)
    assert sorted(read) == ["added", "added", "other", "other"] and len(after) == len(before) + 1
    assert after[1].data["type"] == "pick_heat_then_place_in_recep"
    (cache_file,) = (data / "kept").rglob("*.json")
    games = ('{"format": 1, "folders": {"": []}, "games": [[1]]}', '{"format": 0, "games": []}', '{"format": 1, "games": 3}')
    for broken in ("{", '{"format": 1}', "\udcff", *games):
        cache_file.write_text(broken, errors="surrogateescape")
        assert ALFWorld(data=data).up_to(9) == after, broken
    shutil.rmtree(data / "kept")
    (data / "kept").write_text("a file where a folder is wanted")
    assert ALFWorld(data=data).up_to(9) == after


def test_a_list_of_folders_that_have_not_changed_is_not_walked_again(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(data / "kept"))
    for place in [data / "json_2.1.1/train", *(data / "json_2.1.1/train").rglob("*")]:
        os.utime(place, (1_700_000_000, 1_700_000_000))
    walks: list[str] = []
    monkeypatch.setattr(index, "below", lambda path: walks.append(path) or below(path))
    tasks = ALFWorld(data=data).up_to(9)
    assert ALFWorld(data=data).up_to(9) == tasks and len(walks) == 1
    write_game(data / "json_2.1.1/train/half/new_trial")
    assert len(ALFWorld(data=data).up_to(9)) == len(tasks) + 1 and len(walks) == 2
    shutil.rmtree(data / "json_2.1.1/train/half/new_trial")
    assert ALFWorld(data=data).up_to(9) == tasks


def test_wrong_folders(data: Path):
    with pytest.raises(BadConfig, match="does not exist"):
        ALFWorld(data=data / "nowhere")
    with pytest.raises(BadData, match="no folder 'train'"):
        ALFWorld(data=data / "json_2.1.1" / "train")
    with pytest.raises(UnknownName, match="game of ALFWorld"):
        ALFWorld(data=data).find("train/nothing")


def test_a_file_alone_is_an_environment(data: Path):
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
    """Return the environment of one game, begun; its file is gone again."""
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
        (
            game_text(grammar=GRAMMAR.replace("PutObject {", "Put {")),
            "the grammar's action put is none that this engine plays",
        ),
        (
            game_text(grammar=GRAMMAR.replace('template :: "move {o} to {r}"', 'template :: "{r} gets {o}"')),
            "action PutObject",
        ),
        (game_text(grammar=GRAMMAR.replace("You arrive at", "You stand at")), "rule GotoLocation.feedback.*You stand at"),
        (
            game_text(grammar=GRAMMAR.replace("You move the {o.name} to the", "You move {o.name} to [{r.name}]")),
            "PutObject.feedback",
        ),
        (game_text(grammar=GRAMMAR.replace('"task"', '"list_separator": [{"rhs": "; "}], "task"')), "rule list_separator"),
        (
            game_text(
                grammar=GRAMMAR + 'action OpenObject { template :: "unlock {r}"; feedback :: "#OpenObject.feedback#"; }'
            ),
            "unlock",
        ),
        (game_text(grammar=GRAMMAR + 'action dance { template :: "dance"; feedback :: "You dance."; }'), "action dance"),
        (game_text(grammar=GRAMMAR + "and more"), "text is none .*'and more'"),
        (game_text(grammar=GRAMMAR.replace('"PutObject.feedback": [', '"PutObject.feedback": ')), "no JSON object"),
        (game_text(grammar=GRAMMAR + 'action help { template :: "help"; feedback :: "{o.name}"; }'), "action help"),
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


INLINE = (
    GRAMMAR.partition("action help")[0]
    + 'action help {\n    template :: "help";\n    feedback :: "\nAvailable:\n  look\n";\n}\n'
)


def test_help_is_answered_where_its_answer_stands_in_the_action() -> None:
    """So ALFWorld's patch_tw-pddl.py writes it: data of release 2.1.2 and later."""
    env = _lone(game_text(grammar=INLINE), "inline")
    assert "help" in env.admissible()
    text, _, _, _, info = env.step("help")
    assert text == "Available:\n  look\n" and info["valid"]


def test_the_patched_form_is_the_new_one_but_for_where_help_stands() -> None:
    domain, grammar = (
        DOMAIN.replace("(:action help :parameters (?a - agent))", "(:action help\n :parameters (?a - agent)\n)\n"),
        GRAMMAR,
    )
    patched = patched_generation(domain, grammar)
    assert 'feedback :: "\nAvailable commands:\n  look:  ' in patched[1] and "help.feedback" not in patched[1]
    assert patched[0].count("(:action help") == 1
    dialect = parse_game(game_text(*patched).encode(), "a").dialect
    assert dialect == replace(parse_game(game_text(domain, grammar).encode(), "b").dialect, help=HELP)


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


def test_the_oracle_ends_at_the_win_of_an_object_in_two_receptacles() -> None:
    """An apple in the fridge and on the shelf at once: taken from one and cooled it counts where it still lies."""
    problem = PROBLEM.replace("(cleanable Apple_bar_1)", "(inReceptacle Apple_bar_1 Shelf_bar_1)")
    env = _lone(game_text(problem=problem), "twice")
    plan = list(env.oracle())
    for number, command in enumerate(plan, 1):
        _, reward, terminated, _, info = env.step(command)
        assert info["valid"] and terminated == (number == len(plan)), (number, plan)
    assert reward == 1


def test_an_object_in_two_places_stays_listed_in_the_other():
    twice = PROBLEM.replace("(cleanable Apple_bar_1)", "(inReceptacle Apple_bar_1 Shelf_bar_1)")
    env = _lone(game_text(problem=twice), "twice")
    for command in ("go to shelf 2", "take apple 1 from shelf 2", "go to fridge 1"):
        assert env.step(command)[4]["valid"]
    assert env.step("open fridge 1")[0].endswith("you see a apple 1.")


def test_folders_and_games_may_be_links(data: Path, tmp_path_factory: pytest.TempPathFactory):
    real, folder = data / "json_2.1.1", tmp_path_factory.mktemp("linked")
    expected = [task.id for task in ALFWorld(data=data).up_to(99)]
    (folder / "train").mkdir()
    for place in (real / "train").iterdir():  # each game's folder
        (folder / "train" / place.name).symlink_to(place)
    (folder / "train" / "around").symlink_to(folder)  # no circle
    (folder / "valid_seen").symlink_to(real / "valid_seen")  # a split
    one = folder / "valid_unseen" / "cool" / "trial_T1"
    one.mkdir(parents=True)
    for file in ("game.tw-pddl", "traj_data.json"):
        (one / file).symlink_to(next((real / "valid_unseen").rglob(file)))
    env = ALFWorld(data=folder)
    assert [task.id for task in env.up_to(99) if "around" not in task.id] == expected
    assert env.size("valid_seen") == 2 and env.size("valid_unseen") == 1
    assert env.reset(options={"task": "valid_unseen/cool/trial_T1"})[0].startswith("-= Welcome")
    (one / "game.tw-pddl").unlink()
    (one / "game.tw-pddl").symlink_to("nowhere")
    with pytest.raises(BadData, match=r"trial_T1/game.tw-pddl leads nowhere"):
        ALFWorld(data=folder).size("valid_unseen")


def test_a_folder_may_have_only_the_split_that_is_asked_for(data: Path):
    for split in ("train", "valid_seen"):
        shutil.rmtree(data / "json_2.1.1" / split)
    env = agentgym.make("rlvr/ALFWorld-v0", data=str(data))
    assert list(env.splits) == ["train", "valid_seen", "valid_unseen"]
    assert [task.split for task in env.tasks(1, "valid_unseen")] == ["valid_unseen"]
    words = ["eval", "alfworld", "--policy", "oracle", "--split", "valid_unseen", "--quiet", "--out", str(data / "out")]
    assert main([*words, "--env.data", str(data)]) == 0
    for ask in (lambda: env.tasks(1), lambda: env.reset(seed=0), lambda: ALFWorld(data=data, split="train")):
        with pytest.raises(BadData, match="no folder 'train'"):
            ask()
