"""Facts: their wording, parsing, and truth on a given day."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

UNKNOWN = "unknown"
PEOPLE = (
    "Ada Ben Carla Dmitri Elif Femi Grace Hugo Ines Jonas Kira Liam Mina Noor Oscar Priya Quinn Rosa Sami Tara Umar Vera "
    "Wanda Yusuf"
)
NAMES = tuple(PEOPLE.split())


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VALUES: Mapping[str, tuple[str, ...]] = {
    "locker": tuple(str(number) for number in range(100, 1000)),
    "badge": tuple(str(number) for number in range(1000, 10000)),
    "room": _words("oak elm pine maple cedar birch alder larch willow poplar hazel linden rowan aspen juniper"),
    "car": _words("red blue green black white silver yellow brown purple beige orange pink gray golden violet"),
    "team": _words("falcon otter badger heron lynx marten osprey puffin raven stoat swift tern viper walrus yak"),
}
"""Possible values of each attribute."""
WORDINGS: Mapping[str, tuple[str, ...]] = {
    "own": ("{who}: My {what} is {value}.", "{who}: Please list my {what} as {value}."),
    "changed": ("{who}: My {what} is now {value}.", "{who}: Correction: my {what} is {value}."),
    "heard": ("{other}: I think {who}'s {what} is {value}.", "{other}: I heard that {who}'s {what} is {value}."),
    "until": ("{who}: Until day {day}, my {what} is {value}.", "{who}: My {what} is {value}, but only through day {day}."),
    "given up": ("{who}: I no longer have a {what}.", "{who}: Please delete my {what}. I gave it up."),
}
"""Wordings of statements."""
CHATTER = (
    "{who}: See you at lunch.",
    "{who}: The coffee machine is broken again.",
    "{who}: Thanks, that helped.",
    "{who}: I was late today because of the train.",
    "{who}: Does anyone have a charger?",
    "{who}: Good work, everyone.",
)
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "value": ("What is {who}'s {what}?", "Which {what} does {who} have?"),
    "owner": ("Whose {what} is {value}?", "Who has {value} as their {what}?"),
}


@dataclass(frozen=True)
class Statement:
    """A line that states a fact."""

    kind: str
    who: str
    what: str
    value: str = ""
    day: int = 0
    """Last day on which the fact is valid; 0: it does not expire."""


@cache
def _patterns(table: str) -> list[tuple[str, re.Pattern[str]]]:
    patterns: list[tuple[str, re.Pattern[str]]] = []
    for kind, wordings in (WORDINGS if table == "lines" else QUESTIONS).items():
        for wording in wordings:
            pieces = re.split(r"\{(\w+)\}", wording)
            text = [re.escape(piece) if place % 2 == 0 else rf"(?P<{piece}>\w+)" for place, piece in enumerate(pieces)]
            patterns.append((kind, re.compile("".join(text))))
    return patterns


@lru_cache(maxsize=4096)
def read(line: str) -> Statement | None:
    """Return the statement in a line; None for small talk."""
    for kind, pattern in _patterns("lines"):
        if match := pattern.fullmatch(line):
            parts = match.groupdict()
            return Statement(kind, parts["who"], parts["what"], parts.get("value", ""), int(parts.get("day", 0)))
    return None


def read_question(text: str) -> dict[str, str]:
    """Return the named parts of a question: the attribute (`what`), and the person (`who`) or the `value`."""
    return next(match.groupdict() for _, pattern in _patterns("questions") if (match := pattern.fullmatch(text)))


Valid = dict[tuple[str, str], Statement]
"""The valid statement by person and attribute."""


def counts(statement: Statement, before: Statement | None) -> bool:
    """Return True if a new statement replaces `before`, the valid one; hearsay never replaces a person's own words."""
    return statement.kind != "heard" or before is None or before.kind == "heard"


def valid_after(statements: Iterable[Statement]) -> Valid:
    """Return the statements that are valid after all the given ones, in order."""
    valid: Valid = {}
    for statement in statements:
        place = statement.who, statement.what
        if counts(statement, valid.get(place)):
            valid[place] = statement
    return valid


def true_value(statement: Statement | None, day: int) -> str:
    """Return a statement's value on a day; `unknown` if there is no statement, it was withdrawn, or it has expired."""
    if statement is None or statement.kind == "given up" or 0 < statement.day < day:
        return UNKNOWN
    return statement.value


def answer(question: Mapping[str, str], valid: Valid, day: int) -> str:
    """Return the answer to a question on a day, given the valid statements; `unknown` if no statement answers it."""
    if "who" in question:
        return true_value(valid.get((question["who"], question["what"])), day)
    for (who, what), statement in valid.items():
        if what == question["what"] and true_value(statement, day) == question["value"]:
            return who
    return UNKNOWN
