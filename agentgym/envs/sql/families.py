"""Families of questions: their wordings, and the parts of a frame that they need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agentgym.envs.sql import queries
from agentgym.envs.sql.frames import Clauses, Condition, Frame
from agentgym.envs.sql.schemas import Schema

Spellings = dict[tuple[str, str, str], str]


@dataclass(frozen=True)
class QuestionFamily:
    """Questions of one kind."""

    name: str
    level: int
    """Lowest difficulty with questions of this family."""
    forms: tuple[str, ...]
    """Wordings; names of parts of a frame are in braces."""
    needs: tuple[str, ...] = ()
    """Parts of a frame to draw, such as `column`, `number`, `group` or `where` (keys of `generate._DRAWN`)."""
    ordered: bool = False
    """True if the question asks for an order of rows."""


def query(frame: Frame, schema: Schema, spellings: Spellings | None = None) -> str:
    """Return the SQL query for a frame; `spellings` maps categories to their stored form."""
    return queries.WRITE[frame.family](frame, Clauses(schema, frame.table, spellings))


def wrong_queries(frame: Frame, schema: Schema, spellings: Spellings) -> list[str]:
    """Return distinct plausible wrong queries for a frame: typical mistakes of its family, then wrong conditions."""
    right = query(frame, schema, spellings)
    own = queries.SLIPS[frame.family](frame, Clauses(schema, frame.table, spellings))
    others = (query(slip, schema, spellings) for slip in _slips_of_conditions(frame))
    return [sql for sql in dict.fromkeys([*own, *others]) if sql != right]


def _slips_of_conditions(frame: Frame) -> Iterator[Frame]:
    for i, condition in enumerate(frame.where):
        others = frame.where[:i] + frame.where[i + 1 :]
        if others or frame.family not in ("share", "none"):
            yield replace(frame, where=others)
        flipped = _FLIPPED.get(condition.operator)
        if flipped and (condition.operator not in _BOUNDARY or isinstance(condition.value, int)):
            yield replace(frame, where=(*frame.where[:i], replace(condition, operator=flipped), *frame.where[i + 1 :]))
        if condition.operator == "year":
            since = Condition(condition.path, ">=", f"{condition.value}-01-01")
            yield replace(frame, where=(*frame.where[:i], since, *frame.where[i + 1 :]))
    if len(frame.where) == 2:
        yield replace(frame, either=not frame.either)


_BOUNDARY = {">": ">=", "<": "<=", ">=": ">", "<=": "<"}
_FLIPPED = {**_BOUNDARY, "null": "known", "known": "null", "after": "before", "before": "after"}


FAMILIES: Mapping[str, QuestionFamily] = {
    family.name: family
    for family in (
        QuestionFamily(
            "count",
            0,
            (
                "How many {things}{where} are there?",
                "Count the {things}{where}.",
            ),
            ("where",),
        ),
        QuestionFamily(
            "list",
            0,
            (
                "List the {column} of all {things}{where}.",
                "Give the {column} of each of the {things}{where}.",
            ),
            ("column", "where"),
        ),
        QuestionFamily(
            "aggregate",
            0,
            (
                "What is the {aggregate} {number} of the {things}{where}?",
                "Find the {aggregate} {number} of all {things}{where}.",
            ),
            ("aggregate", "number", "where"),
        ),
        QuestionFamily(
            "distinct",
            1,
            ("How many distinct values of {column} do the {things}{where} have?",),
            ("column", "where"),
        ),
        QuestionFamily(
            "known",
            1,
            ("What is the average {number} of the {things}{where}, ignoring those with no known {number}?",),
            ("unknown", "where"),
        ),
        QuestionFamily(
            "top",
            1,
            (
                "List the {column} of the {count} {things}{where} with the highest {number}, highest first; "
                "break ties by the lower id.",
            ),
            ("column", "number", "count", "where"),
            ordered=True,
        ),
        QuestionFamily(
            "best",
            1,
            ("Give the {column} of the {things}{where} with the highest {number}; if several are tied, give all of them.",),
            ("column", "number", "where"),
        ),
        QuestionFamily(
            "nth",
            2,
            (
                "Sort the distinct values of {number} of the {things}{where} from highest to lowest. Which one is "
                "number {count}?",
            ),
            ("number", "count", "where"),
        ),
        QuestionFamily(
            "groups",
            2,
            (
                "For each {group}, how many {things}{where} are there? Give the {group} and the count, "
                "leaving out groups that have none.",
            ),
            ("group", "where"),
        ),
        QuestionFamily(
            "group_values",
            2,
            ("For each {group} of the {things}{where}, give the {group} and the {aggregate} {number}.",),
            ("group", "aggregate", "number", "where"),
        ),
        QuestionFamily(
            "children",
            2,
            (
                "For each of the {parents}, give the {column} and how many {things}{where} have it as their {parent}, "
                "even if that is 0; give one row for each, even if several have the same {column}.",
            ),
            ("parent", "where?"),
        ),
        QuestionFamily(
            "having",
            3,
            ("List every {group} that has more than {count} {things}{where}.",),
            ("group", "count", "where?"),
        ),
        QuestionFamily(
            "above",
            3,
            ("Give the {column} of the {things}{where} whose {number} is above the average {number} of all {things}.",),
            ("column", "number", "where"),
        ),
        QuestionFamily(
            "share",
            3,
            ("Of all {things}, what percentage (0 to 100, not rounded) are {things}{where}?",),
            ("where",),
        ),
        QuestionFamily(
            "none",
            3,
            (
                "Give the {column} of each of the {parents} that is the {parent} of no {things}{where}; give "
                "one row for each, even if several have the same {column}.",
            ),
            ("parent", "where"),
        ),
        QuestionFamily(
            "months",
            3,
            (
                "For each month (as in 2021-04) of {column}, how many {things}{where} are there? Give the "
                "month and the count, leaving out months that have none.",
            ),
            ("date", "where?"),
        ),
        QuestionFamily(
            "best_of_each",
            4,
            (
                "For each {group} of the {things}{where}, give the {group} and the {column} of the one with "
                "the highest {number}; if several are tied, give a row for each of them.",
            ),
            ("group", "column", "number", "where"),
        ),
        QuestionFamily(
            "running",
            4,
            (
                "Order the {things}{where} by {column}, breaking ties by id. In this order, give each id and the "
                "running total of {number} up to and including that row.",
            ),
            ("date", "number", "where"),
            ordered=True,
        ),
        QuestionFamily(
            "change",
            4,
            (
                "Within each {parent}, order the {things}{where} by {column}, breaking ties by id. For each, give its id "
                "and its {number} minus the {number} of the one before it (NULL for the first).",
            ),
            ("date", "parent-of", "number", "where?"),
        ),
    )
}
