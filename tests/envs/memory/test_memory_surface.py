"""No surface feature of a stream tells the answer to a question, and none tells the person whom it is about.

A reader of surface features sees where and how often each value is stated, in which words and as which kind of statement. It
does not use the names: neither that of the question nor those at the beginning. Who is asked about is uniform, so no such
reader can be right more often than one time in as many as there are people.
"""

import re
from functools import cache

import pytest
from surface import Listing, figure

import agentgym
from agentgym.envs.memory.facts import NAMES, UNKNOWN, read, read_question

ID = "rlvr/Memory-v0"
NAME = re.compile("|".join(NAMES))
SETTINGS = [("tiny", 0), *((None, difficulty) for difficulty in range(4))]
"""Presets and difficulties."""
TASKS = 200


@cache
def tasks(preset, difficulty):
    return agentgym.make(ID, preset=preset, difficulty=difficulty).tasks(TASKS)


@cache
def questions(preset, difficulty, which):
    """Return the statements before the first or last question of each task, its person and its answer.

    Questions about the owner of a value are left out. A statement is a triple of session, line and meaning.
    """
    found = []
    for task in tasks(preset, difficulty):
        stream = task.data["sessions"]
        place = [place for place, session in enumerate(stream) if session["question"]][which]
        question = read_question(stream[place]["question"]["text"])
        lines = [(n / (place + 1), line) for n, session in enumerate(stream[: place + 1]) for line in session["lines"]]
        stated = [(n, line, one) for n, line in lines if (one := read(line)) and one.what == question["what"]]
        if "who" in question:
            found.append((stated, question["who"], stream[place]["question"]["answer"]))
    return found


def look(places, stated):
    """Return what is seen of the statements at these places of a list of statements."""
    mine = [stated[place] for place in places]
    return {
        "count": float(len(mine)),
        "first": mine[0][0] if mine else -1.0,
        "last": mine[-1][0] if mine else -1.0,
        "later": float(len(stated) - 1 - places[-1]) if mine else -1.0,
        "kinds": " ".join(one.kind for _, _, one in mine),
        "words": NAME.sub("", " ".join(line.replace(one.value or "?", "") for _, line, one in mine)),
    }


def by_value(stated, answer):
    """Return the possible answers: each value that was stated, and `unknown`."""
    values = [*dict.fromkeys(one.value for _, _, one in stated if one.value), UNKNOWN]
    places = [[n for n, (*_, one) in enumerate(stated) if (one.value or UNKNOWN) == value] for value in values]
    entries = [{**look(mine, stated), "value": value} for mine, value in zip(places, values, strict=True)]
    return Listing(entries, frozenset({values.index(answer)}))


def by_person(stated, who):
    """Return the people of whom the attribute was stated, without their names."""
    people = list(dict.fromkeys(one.who for *_, one in stated))
    places = [[n for n, (*_, one) in enumerate(stated) if one.who == person] for person in people]
    entries = [{**look(mine, stated), "value": stated[mine[-1]][2].value} for mine in places]
    return Listing(entries, frozenset({people.index(who)}))


def at_chance(found, chance):
    """Return whether the classifier does no better than chance within four standard errors."""
    error = (chance * (1 - chance) / found.tasks) ** 0.5
    return found.hits <= chance + max(4 * error, 2 / found.tasks)


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize(("preset", "difficulty"), SETTINGS)
def test_no_feature_of_a_value_tells_that_it_is_the_answer(preset, difficulty, which, record_property):
    found = figure([by_value(stated, answer) for stated, _, answer in questions(preset, difficulty, which)])
    people = {0: 4, 1: 4, 2: 6, 3: 6}[difficulty]
    record_property("figure", f"{found}; one in {people}")
    assert at_chance(found, 1 / people), f"{found}; one in {people}"


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize(("preset", "difficulty"), SETTINGS)
def test_no_feature_of_a_person_tells_who_is_asked_about(preset, difficulty, which, record_property):
    stories = [
        (stated, who) for stated, who, _ in questions(preset, difficulty, which) if who in {one.who for *_, one in stated}
    ]
    found = figure([by_person(stated, who) for stated, who in stories])
    record_property("figure", str(found))
    assert at_chance(found, found.chance), found
