"""A task family: what is asked, what must be true in the end, and a plan that gets there."""

import re
from collections.abc import Callable, Collection, Generator
from datetime import datetime
from typing import Any, ClassVar, TypeVar

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.web.plan import DONE, IMPOSSIBLE, Answer, Click, Impossible, Page, Plan, Step
from agentgym.envs.web.state import EpisodeState
from agentgym.errors import BadConfig

Ask = dict[str, Any]
"""What the instruction says, as plain values: all that `effect` and `solve` are given."""
Made = tuple[str, dict[str, object]]
"""An instruction, and what `asked` or `question` returns."""

IMPOSSIBLE_SHARE = 0.15
"""How many of a family's tasks cannot be done, in every family that has such tasks."""

MOST_SITES = 200
"""How many sites are drawn for a task before the family is said to have none at such a difficulty."""
MOST_DRAWS = 1000
"""How often something is made up before sites are said to leave no room for it."""

_SEEDS = 2**31
_Item = TypeVar("_Item")


class Unfit(LookupError):
    """The sites of an episode hold nothing that the task to be made could be about."""


class TaskFamily:
    """Tasks of one kind. A family of a site is one subclass, listed in FAMILIES of the site's `tasks.py`.

    A task is solved if the answer is right and all databases hold in the end what they held at the start plus `effect`.
    """

    name: ClassVar[str]
    sites: ClassVar[tuple[str, ...]]
    """The sites it needs; the browser stands on the first host of the first one at the start."""
    always_possible: ClassVar[bool] = False
    """Whether it has no tasks that cannot be done."""

    def draw(self, rng: np.random.Generator, difficulty: int) -> Made:
        """Draw a task: the instruction, and all that makes the task again and judges it.

        Whether it can be done is drawn here and nowhere else; sites that do not fit are drawn again.
        """
        return self.draw_one(rng, difficulty, float(rng.random()) >= IMPOSSIBLE_SHARE or self.always_possible)

    def draw_one(self, rng: np.random.Generator, difficulty: int, possible: bool) -> Made:
        """Draw a task that can be done, or one that cannot; BadConfig where many sites of this difficulty hold none."""
        for _ in range(MOST_SITES):
            try:
                return self._of_seed(int(rng.integers(_SEEDS)), difficulty, possible)
            except Unfit:
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
        """Make a task in these sites that can be done, or one that cannot, as `possible` says; Unfit where there is none."""
        raise NotImplementedError

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        """Make the expected change in a fresh state; nothing where a task only asks."""

    def solve(self, ask: Ask) -> Plan:
        """Yield the steps of a solution from anywhere, all sites as at the start, using `ask` and the pages alone.

        It ends with `Answer` where something is asked for, raises Impossible where the task cannot be done, and just ends
        when all is done.
        """
        raise NotImplementedError

    def plan(self, ask: Ask) -> Plan:
        """Yield the steps of a solution to the last one, an answer."""
        try:
            yield from self.solve(ask)
        except Impossible:
            yield Answer(IMPOSSIBLE)
        else:
            yield Answer(DONE)

    def check(self, state: EpisodeState, answer: str, data: Ask) -> bool:
        """Return whether the task is solved by this state and this answer."""
        answers: list[str] = data["answers"]
        expected = answers[0] if answers else DONE if data["possible"] else IMPOSSIBLE
        if plain(answer) != plain(expected):
            return False
        wanted = state.fresh()
        try:
            if data["possible"]:
                self.effect(wanted, data["ask"])
            return wanted.digest(traces=False) == state.digest(traces=False)
        finally:
            wanted.close()


def asked(ask: Ask) -> dict[str, object]:
    """Return the data of a task that changes something."""
    return {"ask": ask, "answers": []}


def question(ask: Ask, answer: object) -> dict[str, object]:
    """Return the data of a task that asks for an answer (and may change something)."""
    return {"ask": ask, "answers": [str(answer)]}


_AMOUNT = re.compile(r"(?:(?:us ?)?\$|usd)? ?(\d+)(?:\.(\d\d?))? ?(?:(?:us ?)?\$|usd|(?:us )?dollars?)?")
_DOLLARS_AND_CENTS = re.compile(r"(\d+) dollars?(?:,| and|, and)? (\d\d?) cents?")


def plain(text: str) -> str:
    """Return an answer without what does not matter: case, spaces, quotes, a final stop, commas in numbers, how a date,
    a time or an amount is written.
    """
    text = " ".join(text.casefold().split()).strip("\"'`“”‘’ ")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.removesuffix(".").strip("\"'`“”‘’ "))
    text = re.sub(r"\s*,\s*", ", ", text)
    text = re.sub(r"(?<![\d:])(\d):(\d\d)\b", r"0\1:\2", text)  # 9:30 for 09:30
    return _dated(_counted(text))


def _counted(text: str) -> str:
    """Return a text that is an amount of dollars or a number as 12.50, or as 12 where there are no cents; every other text
    as it is.

    What is rounded ($5k), vague (about $5), of another currency or with a comma before the cents is no such amount.
    """
    spoken = _DOLLARS_AND_CENTS.fullmatch(text)
    if spoken:
        return f"{spoken[1]}.{spoken[2]:0>2}".removesuffix(".00")
    amount = _AMOUNT.fullmatch(text)
    return f"{amount[1]}.{amount[2] or '':0<2}".removesuffix(".00") if amount else text


def _dated(text: str) -> str:
    """Return a text that is a date, with its weekday or without, as 2026-03-05; every other text as it is."""
    for form in ("%d %B %Y", "%A, %d %B %Y", "%B %d, %Y", "%A, %B %d, %Y", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return text


def fitting(draw: Callable[[], _Item], fits: Callable[[_Item], bool]) -> _Item:
    """Return the first of what `draw` makes up that fits; Unfit where nothing does in many draws."""
    for _ in range(MOST_DRAWS):
        drawn = draw()
        if fits(drawn):
            return drawn
    raise Unfit


def absent(known: Collection[str], draw: Callable[[], str]) -> str:
    """Return what `draw` makes up that is none of the known ones; Unfit where they seem to be all there is."""
    return fitting(draw, lambda value: value not in known)


def contested(rng: np.random.Generator, counts: Collection[int], most: int) -> int:
    """Draw a place up to `most` (or the first one above) that some of the counts reach and others do not; Unfit without one.

    Tasks that can be done and tasks that cannot so ask for the same places.
    """
    first, last = min(counts) + 1, max(counts)
    if first > last:
        raise Unfit
    return int(rng.integers(first, max(first, min(last, most)) + 1))


def every_page(page: Page, column: str) -> Generator[Step, Page, list[dict[str, str]]]:
    """Read the table (with such a column) of a list that goes over several pages, from its first page on."""
    records = page.records(column)
    while page.has("link", "Next page"):
        page = yield Click("link", "Next page")
        records += page.records(column)
    return records


def ordinal(number: int) -> str:
    """Write 1 as "", 2 as "second ", and so on: what stands before a superlative."""
    names = ("", "second ", "third ", "fourth ", "fifth ")
    return names[number - 1] if number <= len(names) else f"{number}th "
