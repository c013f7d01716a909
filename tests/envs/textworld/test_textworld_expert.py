# ruff: noqa: E501  # genuine texts have long lines
"""TextWorld's expert: what it does after histories written down here, in the words of genuine games."""

import pytest

import agentgym
from agentgym.envs.textworld import notes
from agentgym.envs.textworld.expert import advise
from agentgym.envs.textworld.notes import Notes
from agentgym.envs.textworld.objective import steps_of

HUNGRY = """You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe. Once done, enjoy your meal!

"""
CORRIDOR = """-= Corridor =-
You've entered a corridor.

There is an exit to the north. Don't worry, there is no door. There is an exit to the west."""
KITCHEN = """-= Kitchen =-
You are in a kitchen. A normal kind of place.

You can see a closed fridge. You make out an oven. You make out a table. On the table you can see a cookbook. You make out a counter. On the counter you make out a raw green hot pepper, a red apple and a knife. Look over there! a stove. The stove appears to be empty.

There is a closed screen door leading east. There is an exit to the south."""
BACKYARD = """-= Backyard =-
You've entered a backyard.

You see a patio chair. You can make out a BBQ.

There is an open screen door leading west."""
COOKBOOK = """You open the copy of "Cooking: A Modern Approach (3rd Ed.)" and start reading:

Recipe #1
---------
Gather all following ingredients and follow the directions to prepare this tasty meal.

Ingredients:
green hot pepper
  yellow onion

Directions:
slice the green hot pepper
  grill the green hot pepper
  roast the yellow onion
  prepare meal"""
REFUSED = "'{}' is not possible here. Possible commands: inventory, look."

COOKING = [
    ("", HUNGRY + CORRIDOR),
    ("go north", KITCHEN),
    ("examine cookbook", COOKBOOK),
    ("inventory", "You are carrying nothing."),
    ("open fridge", "You open the fridge, revealing a roasted yellow onion and a raw red tuna."),
    (
        "take green hot pepper",
        "You take the green hot pepper from the counter.\n\nYour score has just gone up by one point.",
    ),
    ("take knife", "You take the knife from the counter."),
    ("slice green hot pepper with knife", "You slice the green hot pepper."),
    ("take yellow onion", "You take the yellow onion from the fridge."),
    ("open screen door", "You open screen door."),
    ("go east", BACKYARD),
    ("cook green hot pepper with bbq", "You grilled the green hot pepper."),
    ("go west", KITCHEN.replace("a raw green hot pepper, ", "").replace("closed screen", "open screen")),
    ("prepare meal", "Adding the meal to your inventory."),
    ("eat meal", "You eat the meal. Not bad.\n\nThe End."),
]


@pytest.mark.parametrize("turn", range(1, len(COOKING)))
def test_a_meal_is_cooked_as_the_book_says(turn):
    # The onion was roasted before: the expert leaves it alone. The pepper on the counter was not.
    assert advise(COOKING[:turn]) == COOKING[turn][0]


def test_what_was_carried_from_the_start_is_cooked_only_as_far_as_it_is_not():
    history = [("", HUNGRY + KITCHEN), ("examine cookbook", COOKBOOK)]
    carried = "You are carrying: a knife, a {}green hot pepper and a {}yellow onion."
    observations = {
        states: advise([*history, ("inventory", carried.format(*states))])
        for states in [("sliced grilled ", "roasted "), ("sliced grilled ", "raw "), ("grilled ", "roasted ")]
    }
    assert list(observations.values()) == [
        "prepare meal",
        "cook yellow onion with oven",
        "slice green hot pepper with knife",
    ]


def test_what_was_dropped_or_put_away_is_fetched():
    history = [*COOKING[:6], ("insert green hot pepper into fridge", "You put the green hot pepper into the fridge.")]
    history += [("close fridge", "You close the fridge."), ("go south", CORRIDOR)]
    assert advise(history) == "go north"
    history += [("go north", KITCHEN.replace("a raw green hot pepper, ", ""))]
    assert advise(history) == "open fridge"


WAY = """Welcome to TextWorld! First off, go to the west. With that done, make an attempt to venture south. Then, recover the coin from the floor of the bar. Got that? Good!

"""
PANTRY = "-= Pantry =-\nYou've entered a pantry.\n\nThere is an unguarded exit to the east. There is an unblocked exit to the west."
OFFICE = "-= Office =-\nYou've entered an office.\n\nYou don't like doors? Why not try going east, that entranceway is unguarded. There is an exit to the south."
BAR = "-= Bar =-\nYou are in a bar.\n\nThere is an exit to the north.\n\nThere is a coin on the floor."


def test_the_way_is_followed_and_found_again():
    start = [("", WAY + PANTRY)]
    assert advise(start) == "go west"
    assert advise([*start, ("go west", OFFICE)]) == "go south"
    assert advise([*start, ("go east", OFFICE)]) == "go west"  # a room that no sentence named: back
    assert advise([*start, ("go west", OFFICE), ("go east", PANTRY)]) == "go west"
    assert advise([*start, ("go west", OFFICE), ("go south", BAR)]) == "take coin"
    seen = [*start, ("go west", OFFICE), ("go south", BAR), ("go north", OFFICE), ("go east", PANTRY)]
    assert advise([*seen, ("take coin", REFUSED.format("take coin"))]) == "go west"


LOCKED = """Here is how to play! First stop, open the antique trunk inside the bedroom. After that, recover the old key from the antique trunk. With the old key, assure that the wooden door within the bedroom is unlocked. Once you have unlocked the wooden door, make sure that the wooden door is ajar. Then, move east. And then, take the lettuce from the couch inside the living room. With the lettuce, take a trip north. Following that, place the lettuce on the stove. That's it!"""


def test_sentences_are_read_as_steps():
    assert steps_of(LOCKED.lower()) == [
        ("open", "antique trunk", ""),
        ("take", "old key", ""),
        ("unlock", "wooden door", "old key"),
        ("open", "wooden door", ""),
        ("go", "east", ""),
        ("take", "lettuce", ""),
        ("go", "north", ""),
        ("put", "lettuce", "stove"),
    ]
    lock = "first, insert the old key into the wooden door in the bedroom's lock to unlock it. then, take the lamp that's in the bar."
    assert steps_of(lock) == [("unlock", "wooden door", "old key"), ("take", "lamp", "")]


def test_a_locked_door_sends_it_for_the_key():
    bedroom = "-= Bedroom =-\nA room.\n\nYou see a chest drawer.\n\nThere is a closed wooden door leading east."
    history = [("", "The dinner is almost ready! It's only missing a grilled lettuce.\n\n" + bedroom)]
    assert advise(history) == "open"  # nothing is known to be closed but the door: what can be opened here?
    history += [("open", "'open' is not possible here. Possible commands: open chest drawer, look.")]
    assert advise(history) == "open chest drawer"
    history += [("open chest drawer", "You open the chest drawer, revealing an old key.")]
    assert advise(history) == "open wooden door"
    history += [("open wooden door", REFUSED.format("open wooden door"))]
    assert advise(history) == "take old key"
    history += [("take old key", "You take the old key from the chest drawer.")]
    assert advise(history) == "unlock wooden door with old key"
    history += [("unlock wooden door with old key", "You unlock wooden door.")]
    assert advise(history) == "open wooden door"


def test_names_do_not_grow_by_what_is_said():
    history = [("", "Take what is there.\n\n-= Bedroom =-\nA room. On the bed you see an old key and a brass key.")]
    names = Notes(history).names
    assert {"old key", "brass key"} < names
    for turn in range(20):
        command = f"a k{turn} key and an l{turn} key"
        history.append((command, f"{command!r} {notes.REFUSED}inventory, look."))
    assert Notes(history).names == names


@pytest.fixture(scope="module")
def env():
    pytest.importorskip("textworld", reason="needs the extra `textworld`")
    env = agentgym.make("rlvr/TextWorld-v0", challenge="cooking", difficulty=1)
    yield env
    env.close()


def test_it_cannot_peek(env):
    """The same history, told in two tasks whose recipes differ, brings the same commands."""
    actions = []
    for number in (0, 1):
        env.reset(seed=0, options={"task": number})
        for turn in range(1, len(COOKING)):
            env.history = COOKING[:turn]
            actions.append(next(env.expert()))
    assert actions == [command for command, _ in COOKING[1:]] * 2


def test_a_genuine_meal_is_cooked_after_detours_and_remembered_by_snapshots(env):
    other = agentgym.make("rlvr/TextWorld-v0", challenge="cooking", difficulty=1)
    _, info = env.reset(seed=0, options={"task": 1, "horizon": 100})
    for _ in range(4):
        way = next(command for command in info["admissible"] if command.startswith(("go", "open")))
        *_, info = env.step(way)
        env.step("sing")  # what was refused is part of the history, too
    other.restore(env.snapshot())
    while env._running:
        command = next(env.expert())
        if other is not None:
            assert command == next(other.expert())
            other.close()
            other = None
        *_, info = env.step(command)
    assert env.success
