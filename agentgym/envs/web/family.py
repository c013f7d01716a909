"""Base class of task families; a family has an instruction, a success condition and a solution plan."""

import re
from collections.abc import Callable, Collection, Generator
from datetime import datetime
from typing import Any, ClassVar, TypeVar

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.web.plan import DONE, IMPOSSIBLE, Answer, Click, ImpossibleTask, Page, Plan, Step
from agentgym.envs.web.state import EpisodeState
from agentgym.errors import BadConfig

Ask = dict[str, Any]
"""Parameters of an instruction as plain values, the only description of the task that `effect` and `solve` receive."""
Made = tuple[str, dict[str, object]]
"""An instruction, and its task data as returned by `change_data` or `question`."""

IMPOSSIBLE_SHARE = 0.15
"""Fraction of impossible tasks, in families that have impossible tasks."""

MOST_SITES = 200
"""Maximum number of random site contents tried for one task; if none fits, `draw_one` raises BadConfig."""
MOST_DRAWS = 1000
"""Maximum number of random draws in `fitting`."""

_SEEDS = 2**31
_Item = TypeVar("_Item")


class NoSubject(LookupError):
    """The sites of this episode contain no suitable subject for the new task."""


class TaskFamily:
    """Base class for tasks of one kind. The `tasks.py` of each site lists the site's subclasses in FAMILIES.

    A task is solved if the answer is right and every database equals its initial state plus the changes made by
    `effect`.
    """

    name: ClassVar[str]
    sites: ClassVar[tuple[str, ...]]
    """Sites that the tasks use; the browser starts on the first host of the first site."""
    always_possible: ClassVar[bool] = False
    """True if the family has no impossible tasks."""

    def draw(self, rng: np.random.Generator, difficulty: int) -> Made:
        """Draw a task: the instruction, and the data with which the environment recreates and judges the task.

        The task is impossible with probability IMPOSSIBLE_SHARE, unless `always_possible` is set.
        """
        return self.draw_one(rng, difficulty, float(rng.random()) >= IMPOSSIBLE_SHARE or self.always_possible)

    def draw_one(self, rng: np.random.Generator, difficulty: int, possible: bool) -> Made:
        """Draw a possible or an impossible task, as `possible` requests.

        Raises:
            BadConfig: none of MOST_SITES random site contents fits such a task at this difficulty.
        """
        for _ in range(MOST_SITES):
            try:
                return self._of_seed(int(rng.integers(_SEEDS)), difficulty, possible)
            except NoSubject:
                continue
        raise BadConfig(
            f"no task of {self.name} that can{'' if possible else 'not'} be done in {MOST_SITES} draws of its sites at "
            f"difficulty {difficulty}; expected one: choose a lower difficulty, or leave the family out (`families`)"
        )

    def _of_seed(self, seed: int, difficulty: int, possible: bool) -> Made:
        state = EpisodeState(seed, difficulty)
        try:
            text, data = self.make(generator("web task", self.name, seed), difficulty, state, possible)
        finally:
            state.close()
        if not possible:
            data["answers"] = []
        return text, {**data, "family": self.name, "seed": seed, "size": difficulty, "possible": possible}

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        """Make a task with the sites in `state`; raise NoSubject if the sites have no suitable subject.

        The task is impossible if `possible` is False.
        """
        raise NotImplementedError

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        """Apply the task's expected changes to a fresh state; do nothing for a question without changes."""

    def solve(self, ask: Ask) -> Plan:
        """Yield the steps of a solution, using only `ask` and the pages.

        The plan starts on any page, with all sites in their initial state. For a question, it ends with `Answer`. For
        an impossible task, it raises ImpossibleTask. Otherwise it returns after the last step.
        """
        raise NotImplementedError

    def plan(self, ask: Ask) -> Plan:
        """Yield the steps of a solution; the last step is an answer: the requested value, `done` or `impossible`."""
        try:
            yield from self.solve(ask)
        except ImpossibleTask:
            yield Answer(IMPOSSIBLE)
        else:
            yield Answer(DONE)

    def check(self, state: EpisodeState, answer: str, data: Ask) -> bool:
        """Return whether this state and this answer solve the task."""
        answers: list[str] = data["answers"]
        expected = answers[0] if answers else DONE if data["possible"] else IMPOSSIBLE
        if plain(answer) != plain(expected):
            return False
        reference = state.fresh()
        try:
            if data["possible"]:
                self.effect(reference, data["ask"])
            return reference.digest(traces=False) == state.digest(traces=False)
        finally:
            reference.close()


def change_data(ask: Ask) -> dict[str, object]:
    """Return the data of a task that requests changes and asks no question."""
    return {"ask": ask, "answers": []}


def question(ask: Ask, answer: object) -> dict[str, object]:
    """Return the data of a task that asks a question, and may also request changes."""
    return {"ask": ask, "answers": [str(answer)]}


_AMOUNT = re.compile(r"(?:(?:us ?)?\$|usd)? ?(\d+)(?:\.(\d\d?))? ?(?:(?:us ?)?\$|usd|(?:us )?dollars?)?")
_DOLLARS_AND_CENTS = re.compile(r"(\d+) dollars?(?:,| and|, and)? (\d\d?) cents?")


def plain(text: str) -> str:
    """Normalize an answer for comparison.

    Normalization ignores case, extra spaces, quotes around the answer, a final period, commas in numbers, and the
    format of dates, times and amounts.
    """
    text = " ".join(text.casefold().split()).strip("\"'`“”‘’ ")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.removesuffix(".").strip("\"'`“”‘’ "))
    text = re.sub(r"\s*,\s*", ", ", text)
    text = re.sub(r"(?<![\d:])(\d):(\d\d)\b", r"0\1:\2", text)  # 9:30 for 09:30
    return _dated(_counted(text))


def _counted(text: str) -> str:
    """Normalize a number or dollar amount to the form 12.50 (12 without cents); return other text unchanged.

    Rounded ($5k) and vague (about $5) amounts, other currencies and decimal commas count as other text.
    """
    spoken = _DOLLARS_AND_CENTS.fullmatch(text)
    if spoken:
        return f"{spoken[1]}.{spoken[2]:0>2}".removesuffix(".00")
    amount = _AMOUNT.fullmatch(text)
    return f"{amount[1]}.{amount[2] or '':0<2}".removesuffix(".00") if amount else text


def _dated(text: str) -> str:
    """Normalize a date, with or without weekday, to the form 2026-03-05; return other text unchanged."""
    for form in ("%d %B %Y", "%A, %d %B %Y", "%B %d, %Y", "%A, %B %d, %Y", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return text


def fitting(draw: Callable[[], _Item], fits: Callable[[_Item], bool]) -> _Item:
    """Call `draw` until `fits` accepts the item, and return the item.

    Raises:
        NoSubject: `fits` rejected MOST_DRAWS items.
    """
    for _ in range(MOST_DRAWS):
        drawn = draw()
        if fits(drawn):
            return drawn
    raise NoSubject


def absent(known: Collection[str], draw: Callable[[], str]) -> str:
    """Return a drawn item that is not in `known`; raise NoSubject if every draw is known."""
    return fitting(draw, lambda value: value not in known)


def contested(rng: np.random.Generator, counts: Collection[int], most: int) -> int:
    """Draw a rank that some of the counts reach and others do not, at most `most` if such a rank exists.

    Possible and impossible tasks thereby ask for the same ranks.

    Raises:
        NoSubject: all counts are equal.
    """
    first, last = min(counts) + 1, max(counts)
    if first > last:
        raise NoSubject
    return int(rng.integers(first, max(first, min(last, most)) + 1))


def every_page(page: Page, column: str) -> Generator[Step, Page, list[dict[str, str]]]:
    """Visit all pages of a table with this column, and return the table's rows; `page` is the table's first page."""
    records = page.records(column)
    while page.has("link", "Next page"):
        page = yield Click("link", "Next page")
        records += page.records(column)
    return records


def ordinal(number: int) -> str:
    """Return the ordinal before a superlative: "" for 1, "second " for 2, and so on."""
    names = ("", "second ", "third ", "fourth ", "fifth ")
    return names[number - 1] if number <= len(names) else f"{number}th "
