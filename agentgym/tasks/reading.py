"""Strict and lenient reading of task files: an unplayable row is refused, or skipped and counted."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agentgym.errors import BadConfig, BadData
from agentgym.tasks.columns import OtherLanguageRow, RefusedRow


@dataclass(frozen=True)
class Reading:
    """The user's options for reading the rows of a file."""

    strict: bool = False
    """Refuse a file that has a bad row, instead of skipping the row."""
    ignore: tuple[str, ...] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""


PLAIN = Reading()
"""The default: skip bad rows, ignore no column."""


def reading(strict: object, ignore: str | Sequence[str]) -> Reading:
    """Return an environment's options `strict` and `ignore` as one value.

    Raises:
        BadConfig: `strict` is not a bool.
    """
    if not isinstance(strict, bool):
        raise BadConfig(f"strict is {strict!r}; expected True or False")
    return Reading(strict, (ignore,) if isinstance(ignore, str) else tuple(ignore))


class Item(Protocol):
    """A playable row."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=Item)  # noqa: E741


def playable(
    source: str, records: Iterable[tuple[Any, ...]], read: Callable[..., I], reading: Reading, noun: str = "task"
) -> dict[str, I]:
    """Return the items that `read` creates from the records, by id; bad rows are skipped, and a warning counts them.

    The first element of a record is its location. `read` raises BadData for a bad row. Messages call an item `noun`.

    Raises:
        BadData: no row is left; or with `reading.strict`, a row is bad or an id repeats.
        UnreadText: a column has text that no reader uses.
    """
    items: dict[str, I] = {}
    rows = Rows(source, reading)
    for record in records:
        try:
            item = read(*record)
            id = item.id
            if id in items:
                raise BadData(f"{record[0]}: the id {id!r} was given before; expected one {noun} per id")
            items[id] = item
        except BadData as error:
            rows.skip(error)
    rows.close(len(items))
    if not items:
        raise BadData(f"{source} holds no {noun}; expected at least one")
    return items


@dataclass
class Rows:
    """Collects the reasons for the skipped rows of a source."""

    source: str
    reading: Reading
    reasons: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    """Reasons for the rows in a language that is not graded."""

    def skip(self, error: BadData) -> None:
        """Count a row as skipped; raise its error if the reading is strict or the error refuses the whole file."""
        if self.reading.strict or isinstance(error, RefusedRow):
            raise error
        self.reasons.append(str(error))
        if isinstance(error, OtherLanguageRow):
            self.foreign.append(str(error))

    def close(self, played: int) -> None:
        """Warn how many rows were skipped; `played` is the number of the others.

        Raises:
            BadData: no row is left, or at least `played` rows are in a language that is not graded.
        """
        if not self.reasons:
            return
        if len(self.foreign) >= max(played, 1):
            raise BadData(self.foreign[0])
        if not played:
            raise BadData(self.reasons[0])
        warnings.warn(
            f"{self.source}: {len(self.reasons)} of {played + len(self.reasons)} rows are not played, the first because of: "
            f"{self.reasons[0]} (strict=True refuses such a file)",
            stacklevel=3,
        )
