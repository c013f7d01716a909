"""Terminal output of an evaluation: a progress bar, then tables."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agentgym.cli.rows import Rows
from agentgym.core.screen import announce, printable
from agentgym.episodes.episode import Episode
from agentgym.evaluate.markdown import faults
from agentgym.evaluate.replies import COLUMN, UNFINISHED
from agentgym.evaluate.spending import MeteredEngine
from agentgym.evaluate.summary import divided

Row = Mapping[str, Any]
Cell = Callable[[Row], str]


def table(summary: Row) -> Rows:
    """Return the results of an evaluation: a row for each environment and each of its task types.

    There are columns for infrastructure errors if any occurred, for the reward if it differs from the success rate, and
    for pass@k and pass^k if every task had several attempts.
    """
    envs: Mapping[str, Row] = summary["envs"]
    k = max(summary["pass_at"], key=int, default="1")
    columns: dict[str, Cell] = {
        ("success [95 %]" if k == "1" else f"success avg@{k} [95 %]"): lambda row: _interval(row["success"]),
        "episodes": lambda row: str(row["success"]["episodes"]),
    }
    if summary["success"]["faults"]:
        columns["infrastructure errors"] = lambda row: faults(row["success"])
    if any(_number(row["reward"]) != _number(row["success"]["mean"]) for row in envs.values()):
        columns["reward"] = lambda row: _number(row["reward"])
    if k != "1":
        columns[f"pass@{k}"] = lambda row: _percent(row["pass_at"].get(k))
        columns[f"pass^{k}"] = lambda row: _percent(row["pass_hat"].get(k))
    rows = _table(envs, columns)
    skipped: Mapping[str, str] = summary.get("skipped", {})  # summaries of other commands have none
    for env, reason in skipped.items():
        rows.note(f"{env}  skipped: {reason}", "yellow")
    return rows


def effort(summary: Row) -> Rows:
    """Return means per episode (turns, sampled tokens, seconds), and shares of failed turns and of unfinished replies."""
    columns: dict[str, Cell] = {
        "turns": lambda row: _number(row["turns"]),
        "tokens": lambda row: _number(row["tokens"]),
        "seconds": lambda row: _number(row["seconds"]),
        "invalid": lambda row: _percent(row["invalid"]),
        "unparsed": lambda row: _percent(row["unparsed"]),
    }
    for end in UNFINISHED:
        if summary["finish"].get(end):
            columns[COLUMN[end]] = lambda row, end=end: _percent(row["finish"].get(end))
    return _table(summary["envs"], columns)


def money(summary: Row) -> list[str]:
    """Return the lines on tokens, price and request times, as far as they are known."""
    lines: list[str] = []
    uncounted = summary.get("uncounted", 0)
    least = "at least " if uncounted else ""
    if usage := summary["usage"]:
        parts = {"cached": usage["cached"], "written to the cache": usage["written"]}
        of_input = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
        of_output = f" ({usage['reasoning']:,} reasoning)" if usage["reasoning"] else ""
        lines.append(
            f"tokens: {least}{usage['input']:,} in{f' ({of_input})' if of_input else ''}, {usage['output']:,} out{of_output}"
        )
    if uncounted:
        lines.append(f"the server did not count the tokens of {uncounted:,} of {summary['replies']:,} replies")
    if cost := summary["cost"]:
        by = {"server": "the server", "prices": "the table of prices"}[cost["by"]]
        won = "" if cost["per_success"] is None else f", ${cost['per_success']:.4f} per success"
        lines.append(f"price: {least}${cost['total']:.4f}, ${cost['per_episode']:.4f} per episode{won}, by {by}")
    if latency := summary["latency"]:
        lines.append(
            f"a request took {latency['median']:.2f} s (median), {latency['p95']:.2f} s (95 %), without waiting and retries"
        )
    return lines


def aggregates(summary: Row) -> list[str]:
    """Return a line on the interquartile mean and three points of the performance profile; [] with fewer than two scores."""
    mean = summary["iqm"]
    if mean is None or mean["runs"] * mean["columns"] < 2:
        return []
    points = {point["above"]: point for point in summary["profile"]}
    profile = ", ".join(f"{_percent(points[above]['value'])} above {above}" for above in (0.2, 0.5, 0.8))
    size = f"{mean['runs']} attempts x {mean['columns']} environments or task types"
    return [f"interquartile mean {_interval({**mean, 'mean': mean['value']})} of {size}; {profile}"]


def contamination_notes(summary: Row) -> list[str]:
    """Return a line for each contamination check: tasks checked, tasks found, and environments not or partly checked."""
    envs: Mapping[str, Row] = summary["contamination"]
    notes: list[str] = []
    for name, what in (("split_overlap", "are in the training split too"), ("answer_in_prompt", "show the answer at once")):
        checks = {env: by_kind[name] for env, by_kind in envs.items()}
        checked, contaminated = (sum(checked_env[key] for checked_env in checks.values()) for key in ("checked", "found"))
        examples = [f"{env} {id}" for env, checked_env in checks.items() for id in checked_env["examples"]]
        note = f"contamination: {contaminated} of {checked} tasks {what}"
        note += f", such as {examples[0]}" if examples else ""
        partly = ", ".join(env for env, checked_env in checks.items() if checked_env["why"])
        if not checked:
            note = f"contamination: not checked whether tasks {what}" + (f" in {partly}" if partly else "")
        elif partly:
            note += f"; not or partly checked: {partly}"
        notes.append(printable(note))
    if any(checked_env["why"] or checked_env["found"] for by_kind in envs.values() for checked_env in by_kind.values()):
        notes[-1] += " (contamination.json says more)"
    return notes


def _table(envs: Mapping[str, Row], columns: Mapping[str, Cell]) -> Rows:
    rows = Rows("environment", list(columns))
    for env, row in envs.items():
        rows.add(env, [cell(row) for cell in columns.values()])
        for name, part in divided(row):
            rows.add(f"  {name}", [cell(part) for cell in columns.values()], "dim")
    return rows


SECONDS = 30.0  # between two progress lines if standard error is not a terminal


class ProgressBar:
    """Progress bar with the success rate on standard error, or occasional lines in a log; a `quiet` bar only counts."""

    def __init__(self, *, quiet: bool = False, meter: MeteredEngine | None = None, estimate: str = "") -> None:
        """Create the bar; `estimate` is a text on the maximum cost, printed before the first episode."""
        self.meter, self.estimate = meter, "" if quiet else estimate
        self.before = meter.spent if meter else 0.0
        self.first = 0
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress_bar = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self.row = self.progress_bar.add_task("episodes", total=None)
        self.done = self.total = self.solved = self.counted = 0
        self.lines = not (quiet or self.progress_bar.console.is_terminal)
        self.printed_at = time.monotonic()

    def start(self, there: int, total: int) -> None:
        """Set the number of episodes `there`, which earlier sessions finished, and the total; print the estimate."""
        if self.estimate:
            announce(self.estimate)
        self.done = self.first = there
        self.total = total
        self.progress_bar.update(self.row, completed=there, total=total)

    def add(self, episode: Episode) -> None:
        """Count a finished episode, and report it to the metered engine."""
        if self.meter:
            self.meter.ended(episode)
        self.done += 1
        self.counted += not episode.fault
        self.solved += episode.success is True
        line = self.rate + self.money
        self.progress_bar.update(self.row, completed=self.done, description=line)
        if self.lines and time.monotonic() > self.printed_at + SECONDS:
            self.printed_at = time.monotonic()
            print(f"{self.done} of {self.total} episodes, {line}", file=sys.stderr, flush=True)

    @property
    def stored(self) -> str:
        """Text with the number of episodes that an interrupted evaluation keeps."""
        return f"{f'{self.done} of {self.total}' if self.total else 'earlier'} episodes are kept"

    @property
    def rate(self) -> str:
        """Text with the success rate so far; `episodes` if no episode has finished without an infrastructure error."""
        return f"success {100 * self.solved / self.counted:.0f} %" if self.counted else "episodes"

    @property
    def money(self) -> str:
        """Text with the session's cost so far and its estimated total; empty until an episode has ended at a cost."""
        spent = self.meter.spent - self.before if self.meter else 0.0
        if not spent or self.done == self.first:
            return ""
        return f", ${spent:.2f}, about ${spent * (self.total - self.first) / (self.done - self.first):.2f} in all"


def _interval(rate: Row) -> str:
    if rate["mean"] is None:
        return "-"
    if rate["low"] is None:
        return _percent(rate["mean"])
    mean, low, high = (f"{100 * rate[name]:.1f}" for name in ("mean", "low", "high"))
    return f"{mean} % [{low}, {high}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
