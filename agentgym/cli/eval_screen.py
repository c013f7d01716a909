"""What an evaluation shows in the terminal: a bar while it runs, a table at the end."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from agentgym.episode import Episode
from agentgym.screen import printable

Row = Mapping[str, Any]


def table(summary: Row) -> Table:
    """Return the table of an evaluation: a row for each world and each of its task types.

    Faults have a column where there are some, the reward where it differs from the success rate.
    """
    worlds: Mapping[str, Row] = summary["worlds"]
    columns: dict[str, Callable[[Row], str]] = {
        "success [95 %]": lambda row: _interval(row["success"]),
        "episodes": lambda row: str(row["success"]["episodes"]),
    }
    if summary["success"]["faults"]:
        columns["faults"] = lambda row: str(row["success"]["faults"])
    if any(_number(row["reward"]) != _number(row["success"]["mean"]) for row in worlds.values()):
        columns["reward"] = lambda row: _number(row["reward"])
    columns["turns"] = lambda row: _number(row["turns"])
    for k in summary["pass_at"]:
        if k != "1":
            columns[f"pass@{k}"] = lambda row, k=k: _percent(row["pass_at"].get(k))
    found = Table(box=None, pad_edge=False, header_style="bold")
    found.add_column("world", overflow="fold")
    for name in columns:
        found.add_column(name, justify="right", no_wrap=True)
    for world, row in worlds.items():
        found.add_row(Text(world), *(Text(cell(row)) for cell in columns.values()))
        for kind, part in row["by_type"].items():
            found.add_row(
                *(Text(cell, style="dim") for cell in (f"  {printable(kind)}", *(cell(part) for cell in columns.values())))
            )
    return found


class Bar:
    """A bar with the success so far, on standard error."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.shown = Progress(*columns, console=Console(stderr=True))
        self.row = self.shown.add_task("episodes", total=None)
        self.done = self.total = self.solved = self.counted = 0

    def start(self, there: int, total: int) -> None:
        """Take in the number of episodes of earlier sittings, and of all."""
        self.done, self.total = there, total
        self.shown.update(self.row, completed=there, total=total)

    def add(self, episode: Episode) -> None:
        """Take in a finished episode."""
        self.done += 1
        self.counted += not episode.fault
        self.solved += episode.success is True
        rate = f"success {100 * self.solved / self.counted:.0f} %" if self.counted else "episodes"
        self.shown.update(self.row, completed=self.done, description=rate)


def _interval(rate: Row) -> str:
    if rate["mean"] is None:
        return "-"
    mean, low, high = (f"{100 * rate[name]:.1f}" for name in ("mean", "low", "high"))
    return f"{mean} % [{low}, {high}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
