"""Report of the checks: passed, broken and skipped ones, with reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LONGEST_ACTION = 60  # characters of an action in a report


class Note(str):
    """Text about the evidence of a check, with the numbers in it as `numbers`."""

    def __new__(cls, text: str, **numbers: object) -> "Note":
        """Create the text and store the numbers with it."""
        note = super().__new__(cls, text)
        note.numbers = numbers
        return note

    numbers: Mapping[str, object]


class Broken(Exception):
    """A check failed. `actions` is the shortest sequence found that breaks it; equal `cause` means the same defect."""

    def __init__(
        self,
        message: str,
        *,
        task: str = "",
        seed: int | None = None,
        actions: Sequence[object] = (),
        cause: str = "",
        numbers: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.task, self.seed, self.actions, self.cause = task, seed, list(actions), cause
        self.numbers = dict(numbers or {})


class NotChecked(Exception):
    """A check does not apply to this environment; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check."""

    check: str
    promise: int
    """Number of the promise that the check tests (docs/guides/contract.md)."""
    status: str
    """`holds`, `broken` or `skipped`."""
    note: str = ""
    """The evidence, the defect, or the reason why the check was skipped."""
    task: str = ""
    seed: int | None = None
    actions: list[object] = field(default_factory=list[object])
    """The shortest sequence of actions found that breaks the check, from the reset of `task` with `seed`."""
    cause: str = ""
    """Exception type and source line, equal for all checks that one defect breaks; empty without an exception."""
    numbers: Mapping[str, object] = field(default_factory=dict[str, object])
    """Numbers by name: counts of tasks, rates, bounds."""
    seconds: float = 0.0
    """Duration of the check in seconds."""
    applies: bool = True
    """False if a check was skipped because it does not apply to this kind of environment."""

    def __str__(self) -> str:
        text = f"{self.status:<8}{self.check:<28}{self.note}"
        if self.task:
            text += f"\n        task {self.task}, seed {self.seed}, actions: {show(self.actions)}"
        return text


@dataclass(frozen=True, slots=True)
class Report:
    """Results of all checks of one environment."""

    id: str
    results: list[Result]

    @property
    def ok(self) -> bool:
        """True if no check is broken."""
        return not self.broken

    @property
    def broken(self) -> list[Result]:
        """The checks that failed."""
        return [result for result in self.results if result.status == "broken"]

    def __str__(self) -> str:
        count = sum(result.status == "holds" for result in self.results)
        lines = [str(result) for result in self.results]
        return "\n".join([*lines, f"{self.id}: {count} checks pass, {len(self.broken)} broken"])


def show(actions: Sequence[object]) -> str:
    """Return a sequence of actions as one line, with long actions cut."""
    words: list[str] = []
    for action in actions:
        text = action if isinstance(action, str) else repr(action)
        cut = f"{text[:LONGEST_ACTION]!r}… ({len(text)} characters)" if len(text) > LONGEST_ACTION else repr(action)
        words.append(cut)
    return "[" + ", ".join(words) + "]"
