"""How strictly the rows of a file of tasks are read: a row that cannot be played is left out and counted, or refused."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agentgym.errors import BadConfig, BadData
from agentgym.tasks.columns import Refused


@dataclass(frozen=True)
class Reading:
    """What a caller wants of the rows of a file."""

    strict: bool = False
    """Whether one bad row refuses the file."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out on purpose."""


PLAIN = Reading()
"""Bad rows are left out, and no column is."""


def reading(strict: object, ignore: str | Sequence[str]) -> Reading:
    """Return the options of an environment as one value; BadConfig for values of another kind."""
    if not isinstance(strict, bool):
        raise BadConfig(f"strict is {strict!r}; expected True or False")
    return Reading(strict, (ignore,) if isinstance(ignore, str) else tuple(ignore))


class Item(Protocol):
    """A row that is played."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=Item)  # noqa: E741


def playable(
    source: str, records: Iterable[tuple[Any, ...]], read: Callable[..., I], reading: Reading, noun: str = "task"
) -> dict[str, I]:
    """Return what `read` makes of each record, whose first part is its place, by id; other rows are left out and counted.

    `read` raises BadData for a row that cannot be played. Raises BadData where no row is left, Unread for text that nobody
    reads, and for a strict reading whatever the first bad row raises.
    """
    items: dict[str, I] = {}
    rows = Rows(source, reading)
    for record in records:
        try:
            item = read(*record)
            if item.id in items:
                raise BadData(f"{record[0]}: the id {item.id!r} was given before; expected one {noun} per id")
            items[item.id] = item
        except BadData as error:
            rows.skip(error)
    rows.close(len(items))
    if not items:
        raise BadData(f"{source} holds no {noun}; expected at least one")
    return items


@dataclass
class Rows:
    """The rows of a source that are not played, with the reason of each."""

    source: str
    reading: Reading
    reasons: list[str] = field(default_factory=list[str])

    def skip(self, error: BadData) -> None:
        """Leave a row out; raises the error for a strict reading, and for what refuses a file however it is read."""
        if self.reading.strict or isinstance(error, Refused):
            raise error
        self.reasons.append(str(error))

    def close(self, played: int) -> None:
        """Warn of the number of rows left out; BadData with the first reason where none is left to play."""
        if not self.reasons:
            return
        if not played:
            raise BadData(self.reasons[0])
        warnings.warn(
            f"{self.source}: {len(self.reasons)} of {played + len(self.reasons)} rows are not played, the first because of: "
            f"{self.reasons[0]} (strict=True refuses such a file)",
            stacklevel=3,
        )
