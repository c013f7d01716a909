"""A task family: instruction, success condition, and a plan."""

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
"""Content of the instruction as plain values, the only input of `effect` and `solve`."""
Made = tuple[str, dict[str, object]]
"""An instruction, and the result of `asked` or `question`."""

IMPOSSIBLE_SHARE = 0.15
"""Share of impossible tasks in every family that has such tasks."""

MOST_SITES = 200
"""Number of sites drawn for a task before the family counts as having none at a difficulty."""
MOST_DRAWS = 1000
"""Number of draws of an item before the sites count as having no room for it."""

_SEEDS = 2**31
_Item = TypeVar("_Item")


class NoSubject(LookupError):
    """The sites of an episode hold nothing that the new task could be about."""


class TaskFamily:
    """Tasks of one kind. A family of a site is one subclass, listed in FAMILIES of the site's `tasks.py`.

    A task is solved if the answer is right and all databases end in their initial state plus `effect`.
    """

    name: ClassVar[str]
    sites: ClassVar[tuple[str, ...]]
    """Sites it needs; the browser starts on the first host of the first one."""
    always_possible: ClassVar[bool] = False
    """True if it has no impossible tasks."""

    def draw(self, rng: np.random.Generator, difficulty: int) -> Made:
        """Draw a task: the instruction, and the data that recreates and judges it.

        Only this method draws whether the task is possible; sites that do not fit are drawn again.
        """
        return self.draw_one(rng, difficulty, float(rng.random()) >= IMPOSSIBLE_SHARE or self.always_possible)

    def draw_one(self, rng: np.random.Generator, difficulty: int, possible: bool) -> Made:
        """Draw a possible task, or an impossible one.

        Raises:
            BadConfig: many draws of sites at this difficulty hold none.
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
        """Make a task in these sites, possible or not as `possible` says; raise NoSubject if there is none."""
        raise NotImplementedError

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        """Make the expected change in a fresh state; nothing if a task only asks."""

    def solve(self, ask: Ask) -> Plan:
        """Yield the steps of a solution from any page, all sites in their initial state, using only `ask` and the pages.

        It ends with `Answer` for a question, raises ImpossibleTask for an impossible task, and otherwise returns at the end.
        """
        raise NotImplementedError

    def plan(self, ask: Ask) -> Plan:
        """Yield the steps of a solution, ending with an answer."""
        try:
            yield from self.solve(ask)
        except ImpossibleTask:
            yield Answer(IMPOSSIBLE)
        else:
            yield Answer(DONE)

    def check(self, state: EpisodeState, answer: str, data: Ask) -> bool:
        """Return whether the task is solved by this state and this answer."""
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
    """Return the data of a task that makes a change."""
    return {"ask": ask, "answers": []}


def question(ask: Ask, answer: object) -> dict[str, object]:
    """Return the data of a task that asks a question (and may make a change)."""
    return {"ask": ask, "answers": [str(answer)]}


_AMOUNT = re.compile(r"(?:(?:us ?)?\$|usd)? ?(\d+)(?:\.(\d\d?))? ?(?:(?:us ?)?\$|usd|(?:us )?dollars?)?")
_DOLLARS_AND_CENTS = re.compile(r"(\d+) dollars?(?:,| and|, and)? (\d\d?) cents?")


def plain(text: str) -> str:
    """Return a normalized answer.

    Ignored are case, spaces, quotes, a final full stop, commas in numbers, and the format of dates, times and amounts.
    """
    text = " ".join(text.casefold().split()).strip("\"'`“”‘’ ")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.removesuffix(".").strip("\"'`“”‘’ "))
    text = re.sub(r"\s*,\s*", ", ", text)
    text = re.sub(r"(?<![\d:])(\d):(\d\d)\b", r"0\1:\2", text)  # 9:30 for 09:30
    return _dated(_counted(text))


def _counted(text: str) -> str:
    """Return a number or an amount of dollars as 12.50, or as 12 without cents; any other text unchanged.

    Rounded ($5k) or vague (about $5) amounts, other currencies and decimal commas are not such amounts.
    """
    spoken = _DOLLARS_AND_CENTS.fullmatch(text)
    if spoken:
        return f"{spoken[1]}.{spoken[2]:0>2}".removesuffix(".00")
    amount = _AMOUNT.fullmatch(text)
    return f"{amount[1]}.{amount[2] or '':0<2}".removesuffix(".00") if amount else text


def _dated(text: str) -> str:
    """Return a date, with or without weekday, as 2026-03-05; any other text unchanged."""
    for form in ("%d %B %Y", "%A, %d %B %Y", "%B %d, %Y", "%A, %B %d, %Y", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return text


def fitting(draw: Callable[[], _Item], fits: Callable[[_Item], bool]) -> _Item:
    """Return the first draw that fits.

    Raises:
        NoSubject: none of many draws fits.
    """
    for _ in range(MOST_DRAWS):
        drawn = draw()
        if fits(drawn):
            return drawn
    raise NoSubject


def absent(known: Collection[str], draw: Callable[[], str]) -> str:
    """Return a draw that is not among the known items; Unfit if they seem to be all there is."""
    return fitting(draw, lambda value: value not in known)


def contested(rng: np.random.Generator, counts: Collection[int], most: int) -> int:
    """Draw a rank up to `most` (or the first one above) that some counts reach and others do not.

    So possible and impossible tasks ask for the same ranks.

    Raises:
        NoSubject: there is no such rank.
    """
    first, last = min(counts) + 1, max(counts)
    if first > last:
        raise NoSubject
    return int(rng.integers(first, max(first, min(last, most)) + 1))


def every_page(page: Page, column: str) -> Generator[Step, Page, list[dict[str, str]]]:
    """Return the rows of a paginated table with this column, starting at its first page."""
    records = page.records(column)
    while page.has("link", "Next page"):
        page = yield Click("link", "Next page")
        records += page.records(column)
    return records


def ordinal(number: int) -> str:
    """Return the ordinal before a superlative: "" for 1, "second " for 2, and so on."""
    names = ("", "second ", "third ", "fourth ", "fifth ")
    return names[number - 1] if number <= len(names) else f"{number}th "
