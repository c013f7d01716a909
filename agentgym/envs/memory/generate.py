"""Generated tasks: a stream of sessions with facts about a few people, chatter about others, and questions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from agentgym.envs.memory.facts import (
    CHATTER,
    NAMES,
    QUESTIONS,
    UNKNOWN,
    WORDINGS,
    Held,
    Statement,
    answer,
    read,
    read_question,
    taken_in,
    true_value,
)
from agentgym.errors import BadConfig

T = TypeVar("T")
Values = Mapping[str, Sequence[str]]
"""The attributes of facts, with their values."""
Session = dict[str, Any]
"""A session (day, lines and question), or a whole task (people asked about, and sessions)."""
DRAWS = 3000
TWINS = 2
"""From difficulty 1 on, the number of bystanders with the same story as each fact that questions are about."""
FAMILIES = {"recall": 0, "update": 0, "abstain": 0, "hearsay": 1, "expiry": 1, "owner": 2}
"""Kinds of changes to facts and of questions, with their first difficulty."""


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def draw(
    rng: np.random.Generator, difficulty: int, families: Sequence[str], attributes: Values, sessions: int, notes: int
) -> Session:
    """Return a task's data, on which every policy of `wrong_ways` gives a wrong answer.

    Raises:
        BadConfig: no such stream was found in DRAWS draws.
    """
    names = [name for name in families if FAMILIES[name] <= difficulty]
    for _ in range(DRAWS):
        data = _drawn(rng, difficulty, names, attributes, sessions or 6 + 4 * difficulty, notes)
        if not any(_passes(data, way) for way in wrong_ways(names).values()):
            return data
    raise BadConfig(
        f"Memory at difficulty {difficulty} found no stream of families {', '.join(names)} in {DRAWS} draws that shortcut "
        "policies fail on: name more families or sessions"
    )


def _drawn(
    rng: np.random.Generator, difficulty: int, families: Sequence[str], attributes: Values, sessions: int, notes: int
) -> Session:
    order = [NAMES[int(place)] for place in rng.permutation(len(NAMES))]
    watched = order[: min(1 + (difficulty + 1) // 2, 8)]
    others = order[8:]
    pairs = [(who, what) for who in watched for what in attributes]
    chosen = [pairs[int(place)] for place in rng.permutation(len(pairs))]
    stated = chosen[: min(2 + difficulty, notes or 12, len(chosen) - 1)]
    asked_about = stated if "abstain" not in families else chosen[: len(stated) + 2]
    bystanders, talkers = (others[:8], others[8:]) if difficulty else ([], others)
    stream = [_session(rng, 1 + 2 * place, min(1 + difficulty // 2, 6), talkers, attributes) for place in range(sessions)]
    last = sessions - 1
    twins: Counter[str] = Counter()
    for who, what in stated:
        lives = [list(_life(rng, who, what, attributes[what], families, last))]
        for _ in range(TWINS if bystanders else 0):
            lives.append(_twin(rng, lives[0], bystanders[twins[what] % len(bystanders)], attributes[what]))
            twins[what] += 1
        for statement, place in (step for life in lives for step in life):
            line = _line(rng, statement, pick(rng, talkers))
            lines: list[str] = stream[place]["lines"]
            lines.insert(int(rng.integers(len(lines) + 1)), line)
    places = sorted({last, *(int(place) for place in rng.integers(last // 2, sessions, size=1 + difficulty // 2))})
    if len(places) < 2:
        places = [last - 1, last]
    for place in places:
        stream[place]["question"] = _question(rng, stream, place, asked_about, families)
    return {"watched": watched, "sessions": stream}


def _session(rng: np.random.Generator, day: int, lines: int, others: Sequence[str], attributes: Values) -> Session:
    """Return a session of chatter, including facts nobody will ask about."""
    chatter: list[str] = []
    for _ in range(lines):
        who = pick(rng, others)
        if rng.random() < 0.4:
            what = pick(rng, list(attributes))
            chatter.append(_line(rng, Statement("own", who, what, pick(rng, attributes[what])), who))
        else:
            chatter.append(pick(rng, CHATTER).format(who=who))
    return {"day": day, "lines": chatter, "question": None}


def _line(rng: np.random.Generator, statement: Statement, other: str) -> str:
    wording = pick(rng, WORDINGS[statement.kind])
    return wording.format(who=statement.who, what=statement.what, value=statement.value, day=statement.day, other=other)


def _life(
    rng: np.random.Generator, who: str, what: str, choices: Sequence[str], families: Sequence[str], last: int
) -> Iterator[tuple[Statement, int]]:
    """Yield the statements about an attribute in order, each with its session."""
    values = [choices[int(place)] for place in rng.permutation(len(choices))[:3]]
    first = int(rng.integers(max(last // 3, 1)))
    later = int(rng.integers(first + 1, max(last, first + 2)))
    kinds = [name for name in families if name in ("recall", "update", "hearsay", "expiry")] or ["recall"]
    kind = pick(rng, kinds)
    if kind == "expiry":
        yield Statement("until", who, what, values[0], 1 + 2 * int(rng.integers(first, last + 1))), first
        return
    if kind == "hearsay" and rng.random() < 0.3:  # the person never states it
        yield Statement("heard", who, what, values[0]), first
        return
    yield Statement("own", who, what, values[0]), first
    if kind == "update":
        given_up = rng.random() < 0.2
        yield Statement("given up", who, what) if given_up else Statement("changed", who, what, values[1]), later
    if kind == "hearsay":
        yield Statement("heard", who, what, values[2]), later


def _twin(
    rng: np.random.Generator, life: Sequence[tuple[Statement, int]], who: str, choices: Sequence[str]
) -> list[tuple[Statement, int]]:
    """Return the same statements in the same sessions about somebody else, with other values: only the name differs."""
    others = {"": ""}
    for value in (statement.value for statement, _ in life if statement.value not in others):
        other = value
        while other == value or other in others.values():
            other = pick(rng, choices)
        others[value] = other
    return [(replace(one, who=who, value=others[one.value]), place) for one, place in life]


def _question(
    rng: np.random.Generator,
    stream: Sequence[Session],
    place: int,
    pairs: Sequence[tuple[str, str]],
    families: Sequence[str],
) -> dict[str, str]:
    who, what = pick(rng, pairs)
    statements = list(spoken(stream, place))
    present, day = taken_in(statements), stream[place]["day"]
    values = [one.value for one in statements if (one.who, one.what) == (who, what) and one.value]
    value = pick(rng, values) if values else UNKNOWN
    owners = {one.who for one in statements if (one.what, one.value) == (what, value)}
    if "owner" in families and len(owners) == 1 and rng.random() < 0.3:
        text = pick(rng, QUESTIONS["owner"]).format(what=what, value=value)
    else:
        text = pick(rng, QUESTIONS["value"]).format(who=who, what=what)
    return {"text": text, "answer": answer(read_question(text), present, day)}


def spoken(stream: Sequence[Session], place: int) -> Iterator[Statement]:
    """Yield the statements up to and including a session."""
    for session in stream[: place + 1]:
        for line in session["lines"]:
            statement = read(line)
            if statement is not None:
                yield statement


Way = Callable[[Sequence[Session], int], str]
"""Maps the sessions and a question's position to an answer."""


def wrong_ways(families: Sequence[str]) -> dict[str, Way]:
    """Return the policies that a task of these families must not reward, by name."""

    def by(present: Callable[[list[Statement]], Held], day: int | None = None) -> Way:
        def way(stream: Sequence[Session], place: int) -> str:
            question = read_question(stream[place]["question"]["text"])
            return answer(question, present(list(spoken(stream, place))), stream[place]["day"] if day is None else day)

        return way

    def recent(stream: Sequence[Session], place: int) -> str:
        question = read_question(stream[place]["question"]["text"])
        statements = [one for session in stream[max(place - 1, 0) : place + 1] for one in spoken([session], 0)]
        return answer(question, taken_in(statements), stream[place]["day"])

    ways: dict[str, Way] = {
        "always unknown": lambda stream, place: UNKNOWN,
        "last two sessions": recent,
        "last value of anybody": last_of_anybody,
    }
    if "update" in families:
        ways["first mention"] = by(lambda stated: {(one.who, one.what): one for one in reversed(stated)})
    if {"hearsay", "expiry"} & set(families):
        ways["last mention"] = by(lambda stated: {(one.who, one.what): one for one in stated}, 0)
    return ways


def last_of_anybody(stream: Sequence[Session], place: int) -> str:
    """Answer with the last statement about the attribute, about whomever."""
    question = read_question(stream[place]["question"]["text"])
    values = [one for one in spoken(stream, place) if one.what == question["what"] and one.value]
    if "value" in question:
        return values[-1].who if values else UNKNOWN
    return true_value(values[-1], 0) if values else UNKNOWN


def _passes(data: Session, way: Way) -> bool:
    stream = data["sessions"]
    questions = [place for place, session in enumerate(stream) if session["question"]]
    return all(way(stream, place) == stream[place]["question"]["answer"] for place in questions)
