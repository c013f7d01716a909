"""How strictly the rows of a file of tasks are read: a row that cannot be played is left out and counted, or refused."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.errors import BadConfig, BadData
from agentgym.tasks.columns import Unread


@dataclass(frozen=True)
class Reading:
    """What a caller wants of the rows of a file."""

    strict: bool = False
    """Whether one bad row refuses the file."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out on purpose."""


def reading(strict: object, ignore: str | Sequence[str]) -> Reading:
    """Return the options of an environment as one value; BadConfig for values of another kind."""
    if not isinstance(strict, bool):
        raise BadConfig(f"strict is {strict!r}; expected True or False")
    return Reading(strict, (ignore,) if isinstance(ignore, str) else tuple(ignore))


@dataclass
class Rows:
    """The rows of a source that are not played, with the reason of each."""

    source: str
    reading: Reading
    reasons: list[str] = field(default_factory=list[str])

    def skip(self, error: BadData) -> None:
        """Leave a row out; raises the error for a strict reading, and for a column that nobody reads."""
        if self.reading.strict or isinstance(error, Unread):
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
