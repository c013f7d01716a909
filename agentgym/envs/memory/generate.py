"""Generated tasks: a stream of sessions with the same kind of facts about several people, and questions about some of them.

The people in questions are drawn last, uniformly and independently of the stream. So among n people, a policy that ignores
the names in a question is right in about one of n cases.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.envs.memory.facts import (
    CHATTER,
    NAMES,
    QUESTIONS,
    UNKNOWN,
    WORDINGS,
    Statement,
    answer,
    read,
    read_question,
    valid_after,
)
from agentgym.envs.memory.stories import Story, day_of, draw_stories, most_unknown, pick
from agentgym.envs.memory.ways import Stated, wrong_ways
from agentgym.errors import BadConfig

Values = Mapping[str, Sequence[str]]
"""The attributes of facts, with their values."""
Session = dict[str, Any]
"""A session (day, lines and question), or a whole task (people asked about, and sessions)."""
DRAWS = 3000
MOST_WATCHED = 4
"""Maximum number of people in questions; as many other people have facts of the same kind."""
FAMILIES = {"recall": 0, "update": 0, "abstain": 0, "hearsay": 1, "expiry": 1, "owner": 2}
"""Kinds of changes to facts and of questions, each with the lowest difficulty that has it."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a task."""

    watched: int
    """Number of people in questions."""
    people: int
    """Number of people with facts, in questions or not."""
    attributes: int
    """Number of attributes that facts are about."""
    sessions: int
    questions: int
    talk: int
    """Lines of small talk in each session."""


def shape(difficulty: int, values: Values, sessions: int, notes: int, talk: int) -> Shape:
    """Return the sizes at a difficulty, small enough that the facts about people in questions fit into the notes.

    The difficulty determines the sizes `sessions` and `talk` if they are 0 and -1. With `notes=0`, 12 notes are assumed.
    """
    room = notes or 12
    watched = min(2 + difficulty // 2, MOST_WATCHED, room)
    people = min(2 * watched, min(map(len, values.values())) // 3 * 2)  # their answers differ, and so do older values
    watched = min(watched, people - 1)
    attributes = min(1 + (difficulty + 1) // 2, len(values), room // watched)
    length = sessions or 6 + 4 * difficulty
    questions = min(2 + difficulty // 2, length - 2 * length // 3)
    return Shape(watched, people, attributes, length, questions, min(1 + difficulty // 2, 6) if talk < 0 else talk)


@dataclass(frozen=True)
class Slot:
    """A question whose person is not yet drawn."""

    place: int
    what: str
    owner: bool
    """True if the question gives a value and asks who has it."""


def draw(rng: np.random.Generator, difficulty: int, families: Sequence[str], values: Values, sizes: Shape) -> Session:
    """Return the data of a task on which every policy of `wrong_ways` gives a wrong answer.

    Raises:
        BadConfig: no such stream was found in DRAWS draws.
    """
    names = [name for name in families if FAMILIES[name] <= difficulty]
    for _ in range(DRAWS):
        data = _drawn(rng, names, values, sizes)
        if data is not None:
            return data
    raise BadConfig(
        f"Memory at difficulty {difficulty} found no stream of families {', '.join(names)} in {DRAWS} draws that shortcut "
        "policies fail on: name more families or sessions"
    )


def _drawn(rng: np.random.Generator, families: Sequence[str], values: Values, sizes: Shape) -> Session | None:
    """Return a task's data; None if too many people share an answer, or no choice of people defeats all `wrong_ways`."""
    order = [NAMES[int(place)] for place in rng.permutation(len(NAMES))]
    people, talkers = order[: sizes.people], order[sizes.people :]
    attributes = [list(values)[int(place)] for place in rng.permutation(len(values))[: sizes.attributes]]
    slots = _slots(rng, attributes, sizes, "owner" in families)
    firsts = _firsts(rng, slots[0].place, len(people) * len(attributes))
    stories: list[Story] = []
    for number, what in enumerate(attributes):
        own = firsts[number * len(people) : (number + 1) * len(people)]
        stories += draw_stories(rng, people, what, values[what], families, own, sizes.sessions - 1)
    stated = _in_order(rng, stories)
    current = [_current(slot, people, stated) for slot in slots]
    shared = max(most_unknown(families, len(people)) - 1, 0)
    if any(len(set(row)) < len(row) - shared for row in current):
        return None
    questions = [_questions(rng, slot, people, row, values[slot.what]) for slot, row in zip(slots, current, strict=True)]
    pair = slots[0], slots[-1]
    second = _order_of_second(rng, pair, (questions[0], questions[-1]), stated, families)
    if second is None:
        return None
    # only now is it drawn who is asked about
    one = int(rng.integers(len(people)))
    chosen = list(dict.fromkeys([one, second[one]]))
    more = [place for place in rng.permutation(len(people)).tolist() if place not in chosen]
    watched = [*chosen, *more][: sizes.watched]
    asked_slots = [one, *(pick(rng, watched) for _ in slots[1:-1]), second[one]]
    stream = _stream(rng, stated, talkers, order, sizes)
    for slot, (texts, answers), who in zip(slots, questions, asked_slots, strict=True):
        stream[slot.place]["question"] = {"text": texts[who], "answer": answers[who]}
    return {"watched": [people[watched[int(place)]] for place in rng.permutation(len(watched))], "sessions": stream}


def _slots(rng: np.random.Generator, attributes: Sequence[str], sizes: Shape, owner: bool) -> list[Slot]:
    """Return the questions in order, all in the last third, and the last in the last session.

    The first asks for a value; with `owner`, others may give a value and ask who has it.
    """
    last, earliest = sizes.sessions - 1, 2 * sizes.sessions // 3
    places = [*sorted((earliest + rng.permutation(last - earliest)[: sizes.questions - 1]).tolist()), last]
    whats = [attributes[place % len(attributes)] for place in range(len(places))]
    whats = [whats[int(place)] for place in rng.permutation(len(whats))]
    return [
        Slot(place, what, number > 0 and owner and bool(rng.random() < 0.3))
        for number, (place, what) in enumerate(zip(places, whats, strict=True))
    ]


def _firsts(rng: np.random.Generator, first_question: int, count: int) -> list[int]:
    """Return session numbers for `count` first statements, spread evenly over the sessions before the first question."""
    rounds = [rng.permutation(first_question).tolist() for _ in range(-(-count // first_question))]
    firsts = [place for one in rounds for place in one][:count]
    return [firsts[int(place)] for place in rng.permutation(count)]


def _in_order(rng: np.random.Generator, stories: Sequence[Story]) -> list[tuple[int, Statement]]:
    """Return all statements ordered by session, in random order within a session."""
    steps = [step for story in stories for step in story]
    return sorted((steps[int(place)] for place in rng.permutation(len(steps))), key=lambda step: step[0])


def _current(slot: Slot, people: Sequence[str], stated: Stated) -> list[str]:
    """Return each person's value of the slot's attribute in the slot's session; `unknown` if there is no valid value."""
    valid = valid_after(one for place, one in stated if place <= slot.place)
    return [answer({"who": who, "what": slot.what}, valid, day_of(slot.place)) for who in people]


def _questions(
    rng: np.random.Generator, slot: Slot, people: Sequence[str], current: Sequence[str], values: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the slot's questions, one for each person, and their answers."""
    wording = pick(rng, QUESTIONS["owner" if slot.owner else "value"])
    if not slot.owner:
        return [wording.format(who=who, what=slot.what) for who in people], list(current)
    free = pick(rng, [value for value in values if value not in current] or [UNKNOWN])  # without it, all are known
    texts = [wording.format(value=free if value == UNKNOWN else value, what=slot.what) for value in current]
    return texts, [UNKNOWN if value == UNKNOWN else who for who, value in zip(people, current, strict=True)]


def _order_of_second(
    rng: np.random.Generator,
    pair: tuple[Slot, Slot],
    questions: tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]],
    stated: Stated,
    families: Sequence[str],
) -> list[int] | None:
    """Return, for each person of the first question, the index of another person for the second; None if no choice works.

    No policy of `wrong_ways` answers both questions correctly. The result is a permutation, so if the first person is drawn
    uniformly, the second is uniform too.
    """
    right: list[np.ndarray] = []  # of each slot: [ways, people]
    for slot, (texts, answers) in zip(pair, questions, strict=True):
        known = [(place, one) for place, one in stated if place <= slot.place]
        rows = [
            [
                way(read_question(text), known, slot.place, day_of(slot.place)) == answer
                for text, answer in zip(texts, answers, strict=True)
            ]
            for way in wrong_ways(families).values()
        ]
        right.append(np.array(rows))
    allowed = ~np.einsum("wi,wj->ij", right[0], right[1])
    np.fill_diagonal(allowed, val=False)
    return _matched(rng, allowed)


def _matched(rng: np.random.Generator, allowed: np.ndarray) -> list[int] | None:
    """Return a random permutation that uses only allowed (row, column) pairs, by augmenting paths; None if none exists."""
    count = len(allowed)
    row_of = [-1] * count

    def assign(row: int, tried: set[int]) -> bool:
        columns: list[int] = rng.permutation(count).tolist()
        for column in columns:
            if allowed[row, column] and column not in tried:
                tried.add(column)
                if row_of[column] < 0 or assign(row_of[column], tried):
                    row_of[column] = row
                    return True
        return False

    rows: list[int] = rng.permutation(count).tolist()
    if not all(assign(row, set()) for row in rows):
        return None
    return [row_of.index(row) for row in range(count)]


def _stream(
    rng: np.random.Generator, stated: Stated, talkers: Sequence[str], everybody: Sequence[str], sizes: Shape
) -> list[Session]:
    """Return the sessions: the statements in order, with small talk by `everybody` in between; `talkers` spread hearsay."""
    stream: list[Session] = []
    for place in range(sizes.sessions):
        lines = [_line(rng, one, pick(rng, talkers)) for session, one in stated if session == place]
        for _ in range(sizes.talk):
            lines.insert(int(rng.integers(len(lines) + 1)), pick(rng, CHATTER).format(who=pick(rng, everybody)))
        stream.append({"day": day_of(place), "lines": lines, "question": None})
    return stream


def _line(rng: np.random.Generator, statement: Statement, other: str) -> str:
    wording = pick(rng, WORDINGS[statement.kind])
    return wording.format(who=statement.who, what=statement.what, value=statement.value, day=statement.day, other=other)


def spoken(stream: Sequence[Session], place: int) -> Iterator[tuple[int, Statement]]:
    """Yield (session number, statement) for the statements up to and including session `place`."""
    for number, session in enumerate(stream[: place + 1]):
        for line in session["lines"]:
            statement = read(line)
            if statement is not None:
                yield number, statement
