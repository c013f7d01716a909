"""The rules against what the genuine engine was seen to print; every expected text was written down by hand."""

import pytest
from household_files import DOMAIN, OLD_GRAMMAR, PROBLEM, game_text

from agentgym.envs.household.alfworld import parse_game
from agentgym.envs.household.explain import explain
from agentgym.envs.household.game import number_names
from agentgym.envs.household.play import Play
from agentgym.envs.household.text import write_list


def play_of(*commands: str, **texts: str) -> Play:
    play = Play(parse_game(game_text(**texts).encode(), "game"))
    for command in commands:
        assert play.act(command) is not None, f"{command!r} is not possible: {explain(play, command)}"
    return play


def test_introduction_lists_all_receptacles_in_the_order_of_their_ids():
    intro = play_of().game.intro
    assert intro == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a drawer 1, a fridge 1, a microwave 1, a shelf 2, a shelf 1, and a sinkbasin 1.\n\n"
        "Your task is to: cool some apple and put it in shelf."
    )


def test_introduction_faces_what_stands_where_the_agent_starts():
    problem = PROBLEM.replace("(atLocation agent1 loc_bar_0_bar_0)", "(atLocation agent1 loc_bar_1_bar_0)")
    assert (
        "\n\nYou are facing the shelf 2, and shelf 1. Next to it, you see nothing.\n\n"
        in play_of(problem=problem).game.intro
    )


def test_numbers_run_downward_in_the_order_of_ids():
    assert number_names(["cabinet_bar_b", "cabinet_bar_a", "sink_bar_1_bar_sinkbasin", "sink_bar_2", "agent1"]) == {
        "agent1": "agent1 ",
        "cabinet_bar_a": "cabinet 2",
        "cabinet_bar_b": "cabinet 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
        "sink_bar_2": "sink 1",
    }


def test_declared_without_a_fact_counts_for_no_number():
    assert not any(name.startswith("saltshaker") for name in play_of().game.objects)
    assert [name for name in play_of().game.objects if name.startswith("apple")] == ["apple 1"]


@pytest.mark.parametrize(
    ("names", "text"),
    [([], "nothing"), (["x 1"], "a x 1"), (["x 2", "y 1"], "a x 2, and a y 1"), (["a", "b", "c"], "a a, a b, and a c")],
)
def test_lists(names: list[str], text: str):
    assert write_list(names) == text


def test_look_before_the_first_step_hides_the_room():
    assert play_of().answer("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."


def test_going_opening_and_closing():
    play = play_of()
    assert play.answer("go to drawer 1") == "You arrive at drawer 1. The drawer 1 is closed."
    assert play.answer("examine drawer 1") == "The drawer 1 is closed."
    assert play.answer("open drawer 1") == "You open the drawer 1. The drawer 1 is open. In it, you see a desklamp 1."
    assert play.answer("close drawer 1") == "You close the drawer 1."
    assert play.answer("examine microwave 1") == "The microwave 1 is open. In it, you see nothing."
    assert play.answer("go to shelf 2") == "You arrive at shelf 2. On the shelf 2, you see a book 2, and a book 1."


def test_no_way_leads_to_what_shares_the_place():
    play = play_of("go to shelf 2")
    assert play.answer("go to shelf 1") == "Nothing happens."
    assert play.answer("go to shelf 2") == "Nothing happens."
    assert play.answer("examine shelf 1") == "On the shelf 1, you see a bowl 1, and a knife 1."
    assert "you are at the shelf 1 already" in explain(play, "go to shelf 1")


def test_next_to_it_lists_what_was_moved_to_the_neighbour():
    play = play_of("go to shelf 2")
    assert play.answer("look") == "You are facing the shelf 2, and shelf 1. Next to it, you see nothing."
    for command in ("take book 2 from shelf 2", "move book 2 to shelf 1"):
        play.act(command)
    assert play.answer("look") == "You are facing the shelf 2, and shelf 1. Next to it, you see a book 2."
    for command in ("take book 2 from shelf 1", "move book 2 to shelf 1"):
        play.act(command)
    assert play.answer("look").endswith("you see a book 2.")
    for command in ("take book 2 from shelf 1", "move book 2 to shelf 2"):
        play.act(command)
    assert play.answer("look").endswith("you see a book 2."), "it is beside shelf 1 now, from which it was taken"


def test_state_keys_tell_apart_what_next_to_it_will_show():
    moved = play_of("go to shelf 2", "take book 2 from shelf 2", "move book 2 to shelf 1")
    back = play_of("go to shelf 2", "take book 2 from shelf 2", "move book 2 to shelf 2")
    fresh = play_of("go to shelf 2")
    assert back.key == fresh.key != moved.key


def test_use_reaches_into_closed_receptacles_and_never_switches_off():
    play = play_of("go to drawer 1")
    assert "use desklamp 1" in play.admissible()
    assert [play.answer("use desklamp 1") for _ in range(2)] == ["You turn on the desklamp 1."] * 2


def test_heating_and_cooling_undo_each_other_and_cleaning_stays():
    play = play_of("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1")
    assert play.answer("inventory") == "You are carrying: a apple 1."
    assert play.answer("examine apple 1") == "There's nothing special about apple 1."
    assert play.answer("heat apple 1 with microwave 1") == "You heat the apple 1 using the microwave 1."
    assert play.answer("examine apple 1") == "This is a hot apple 1."
    assert play.answer("clean apple 1 with sinkbasin 1") == "You clean the apple 1 using the sinkbasin 1."
    assert play.answer("examine apple 1") == "This is a hot and clean apple 1."
    play.act("cool apple 1 with fridge 1")
    assert play.answer("examine apple 1") == "This is a cool and clean apple 1."


def test_cold_is_said_of_what_is_only_cool():
    play = play_of("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "cool apple 1 with fridge 1")
    assert play.answer("examine apple 1") == "This is a cold apple 1."


def test_nothing_goes_into_or_out_of_what_is_closed():
    play = play_of("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "close fridge 1")
    assert play.answer("move apple 1 to fridge 1") == "Nothing happens."
    play.act("open fridge 1")
    assert play.answer("move apple 1 to fridge 1") == "You move the apple 1 to the fridge 1."
    play.act("close fridge 1")
    assert play.answer("take apple 1 from fridge 1") == "Nothing happens."


def test_slicing_reaches_into_closed_receptacles():
    play = play_of("go to shelf 1", "take knife 1 from shelf 1", "go to fridge 1")
    assert play.answer("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    assert play.answer("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    for command in (
        "go to shelf 1",
        "move knife 1 to shelf 1",
        "go to fridge 1",
        "open fridge 1",
        "take apple 1 from fridge 1",
    ):
        play.act(command)
    assert play.answer("examine apple 1") == "This is a sliced apple 1."
    play.act("cool apple 1 with fridge 1")
    assert play.answer("examine apple 1") == "This is a cool sliced apple 1."
    play.act("clean apple 1 with sinkbasin 1")
    assert play.answer("examine apple 1") == "This is a cool and clean sliced apple 1."


def test_a_movable_receptacle_shows_what_nobody_can_take():
    play = play_of("go to shelf 1", "take bowl 1 from shelf 1")
    assert play.answer("examine bowl 1") == "This is a normal bowl 1. In it, you see a egg 1."
    assert not any("egg" in command for command in play.admissible())


def test_visible_objects_are_examined_only_without_the_comma():
    assert "examine book 2" not in play_of("go to shelf 2").admissible()
    play = play_of("go to shelf 2", domain=DOMAIN.replace("location,", "location"))
    assert play.answer("examine book 2") == "There's nothing special about book 2."


def test_a_comma_in_a_comment_is_no_comma():
    domain = DOMAIN.replace("location,", "location") + "; (exists (?l - location, ?r - receptacle)\n"
    assert "examine book 2" in play_of("go to shelf 2", domain=domain).admissible()


def test_commands_are_exact_but_for_the_space_around_them():
    play = play_of()
    assert play.answer("LOOK") == "Nothing happens."
    assert play.answer("  look\n").startswith("You are in the middle")
    assert "lower case" in explain(play, "LOOK")


def test_help_begins_without_its_newline():
    assert play_of().answer("help") == "Available commands:\n  look\n"


def test_admissible_commands_are_sorted_by_code_points():
    assert play_of("go to shelf 2").admissible() == [
        "examine shelf 1",
        "examine shelf 2",
        "go to drawer 1",
        "go to fridge 1",
        "go to microwave 1",
        "go to sinkbasin 1",
        "help",
        "inventory",
        "look",
        "take book 1 from shelf 2",
        "take book 2 from shelf 2",
        "take bowl 1 from shelf 1",
        "take knife 1 from shelf 1",
    ]


def test_older_games_speak_of_locations_and_put_things_in_and_on():
    play = play_of(grammar=OLD_GRAMMAR)
    assert play.answer("help") == "Nothing happens."
    assert play.answer("go to shelf 1").startswith("You arrive at loc 2. On the shelf 1, you see")
    play.act("take knife 1 from shelf 1")
    assert play.answer("move knife 1 to shelf 2") == "Nothing happens."
    assert "put knife 1 in/on shelf 2" in explain(play, "move knife 1 to shelf 2")
    assert play.answer("put knife 1 in/on shelf 2") == "You put the knife 1 in/on the shelf 2."


def test_the_goal_is_a_state_and_can_be_undone():
    play = play_of("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "cool apple 1 with fridge 1")
    assert not play.won()
    play.act("go to shelf 1")
    play.act("move apple 1 to shelf 1")
    assert play.won()
    play.act("take apple 1 from shelf 1")
    assert not play.won()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("go to shelf 7", "Did you mean 'shelf"),
        ("open fridge 1", "Go there first: 'go to fridge 1'"),
        ("take apple 1 from fridge 1", "is not here"),
        ("examine apple 1", "not holding 'apple 1'"),
        ("examine nonsense 1", "not holding 'nonsense 1'"),
        ("dance", "is not a command"),
        ("x" * 5000, "has 5000 characters"),
    ],
)
def test_why_nothing_happens(command: str, reason: str):
    assert reason in explain(play_of(), command)


def test_why_nothing_happens_at_a_place():
    play = play_of("go to fridge 1")
    assert "Open it first" in explain(play, "take apple 1 from fridge 1")
    assert "closed already" in explain(play, "close fridge 1")
    for command in ("open fridge 1", "take apple 1 from fridge 1"):
        play.act(command)
    assert "hands are full" in explain(play, "take apple 1 from fridge 1")
    assert "does not take a apple" in explain(play, "move apple 1 to microwave 1")
    assert "cannot heat" not in explain(play, "heat apple 1 with fridge 1")
    assert "not where one can heat" in explain(play, "heat apple 1 with fridge 1")
