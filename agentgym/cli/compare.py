"""Compare two evaluations task by task: difference, interval, flipped tasks, and the number of tasks needed.

agentgym compare runs/eval-a runs/eval-b            is B better than A?
agentgym compare runs/demo runs/b                   two training runs: their curves, and their last evaluations
agentgym compare runs/eval-a runs/eval-b --json     the same as JSON, with every flipped task
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agentgym.cli.rows import Rows, labelled, say
from agentgym.core.screen import printable
from agentgym.episodes.episode import MOST_FAULTS
from agentgym.errors import BadConfig
from agentgym.evaluate.compare import compare_evaluations
from agentgym.evaluate.pass_curves import sentences
from agentgym.evaluate.summary import divided
from agentgym.options import Positional
from agentgym.report.comparison import write_comparison

Row = Mapping[str, Any]
MOST_OPTIONS = 12
"""Maximum number of differing options to print; two training runs may have a hundred, which would hide the results."""

SAME = "A and B hold the same episodes, so nothing is compared: name two evaluations"


@dataclass(frozen=True)
class Config:
    """Options of `agentgym compare`."""

    a: Positional[str]
    """Folder of the evaluation or training run that B is compared with, or a log: a folder of a Harbor job, an .eval file of
    inspect_ai, ATIF documents."""
    b: Positional[str]
    """Folder of another evaluation or run with the same tasks."""
    json: bool = False
    """Print JSON that names every flipped task."""
    tasks: int = 10
    """Flipped tasks to list in each direction."""
    page: str | None = None
    """HTML file to write, with the flipped tasks side by side; by default compare-with-A.html in B's folder."""


def run(config: Config) -> int:
    """Print the comparison; return 1 if there are too many infrastructure errors for a verdict.

    Raises:
        BadConfig: an option is invalid.
        OSError: the page named by --page cannot be written.
    """
    if config.tasks < 0:
        raise BadConfig(f"--tasks is {config.tasks}; expected 0 or more")
    if config.page and (Path(config.page).is_dir() or not Path(config.page).parent.is_dir()):
        raise BadConfig(f"--page is {config.page}; expected the name of a file in a folder that exists")
    comparison, sides = compare_evaluations(config.a, config.b)
    if config.json:
        print(json.dumps(comparison, indent=2, allow_nan=False))
        return 1 if comparison["not_comparable"] else 0
    console = Console()
    console.print(Text(f"A {printable(comparison['a'])}\nB {printable(comparison['b'])}"), soft_wrap=True)
    _show_options(console, comparison["options"])
    notes = [SAME] * comparison["same"] + _left_out(comparison)
    for line in notes:
        say(console, line, "bold yellow" if line == SAME else "")
    console.print()
    console.print(table(comparison), soft_wrap=True)
    console.print()
    curves = sentences(comparison["pass_at"])
    for line in [*_flips(comparison["all"], config.tasks), *curves, *(_refusal(comparison) or verdict(comparison["all"]))]:
        say(console, line)
    folder = Path(config.b) if Path(config.b).is_dir() else Path(config.b).parent
    page = Path(config.page or folder / f"compare-with-{Path(config.a).resolve().name}.html")
    try:
        message = str(write_comparison(comparison, sides, notes, page))
    except OSError as error:
        if config.page:
            raise
        message = f"no page was written ({page}: {error.strerror}): name a file with --page"
    console.print(Text(printable(message)), soft_wrap=True)
    return 1 if comparison["not_comparable"] else 0


def table(comparison: Row) -> Rows:
    """Return a row for each environment, its types and its difficulties, and a total row if there are several."""
    rows = Rows("environment", ("tasks", "A %", "B %", "B - A [95 %]", "gained", "lost"))
    envs: Mapping[str, Row] = comparison["envs"]
    for env, row in envs.items():
        rows.add(env, _cells(row))
        for name, part in divided(row):
            rows.add(f"  {name}", _cells(part), "dim")
    if len(envs) > 1:
        rows.add("all", _cells(comparison["all"]), "bold")
    return rows


def _refusal(comparison: Row) -> list[str]:
    """Return the reasons why too many infrastructure errors prevent a verdict; empty if they do not."""
    if not comparison["not_comparable"]:
        return []
    why = [printable(message) for message in comparison["not_comparable"]]
    return [
        *why,
        f"no verdict: more than {MOST_FAULTS:.0%} infrastructure errors. Play them again: agentgym eval … --retry-faults",
    ]


def verdict(row: Row) -> Sequence[str]:
    """Return lines with the conclusion, the number of tasks needed to detect the difference, and a detectable difference."""
    low, high, tasks = row["difference"]["low"], row["difference"]["high"], row["difference"]["units"]
    lines = ["B is better" if low > 0 else "A is better" if high < 0 else "no difference is shown: the interval contains 0"]
    lines[0] += f"; sign test p = {row['p_value']:.3g}"
    needed, detectable = row["tasks_needed"], row["detectable"]
    if needed is not None:
        size = abs(100 * row["difference"]["mean"])
        aim = f"a difference of {size:.1f} points (power 80 %, two-sided 5 %)"
        lines.append(f"{needed} tasks are needed to see {aim}; {tasks} are paired")
    if detectable is not None:
        lines.append(f"with the same power {tasks} tasks show a difference of {100 * detectable:.1f} points or more")
    return lines


def _show_options(console: Console, options: Mapping[str, Sequence[object]]) -> None:
    """Print the differing options; each side gets its own line if the terminal is too narrow for both."""
    for name, (old, new) in list(options.items())[:MOST_OPTIONS]:
        line = f"{printable(name)}: {_short(old)} in A, {_short(new)} in B"
        if console.is_terminal and cell_len(line) > console.width:
            console.print(Text(f"{printable(name)}:"))
            console.print(labelled({"A": _short(old), "B": _short(new)}))
        else:
            say(console, line)
    if len(options) > MOST_OPTIONS:
        say(console, f"... and {len(options) - MOST_OPTIONS} more differences: on the page, or --json")


def _left_out(comparison: Row) -> list[str]:
    """Return the tasks and episodes left out of the comparison, with reasons."""
    lines: list[str] = []
    counts = comparison["tasks"]
    reasons = {
        "only A finished": counts["only_a"],
        "only B finished": counts["only_b"],
        "have different instructions": counts["other_instruction"],
    }
    left_out = [f"{count} that {why}" for why, count in reasons.items() if count]
    if left_out:
        lines.append(f"{counts['paired']} tasks are paired; left out: {', '.join(left_out)}")
    if any(comparison["faults"].values()):
        each = [f"{comparison['faults'][side]} ({comparison['fault_share'][side]:.1%}) in {side.upper()}" for side in "ab"]
        lines.append(f"infrastructure errors, left out: {', '.join(each)}")
    return lines


def _flips(row: Row, most: int) -> list[str]:
    lines: list[str] = []
    for name, what in (("gained", "solved by B alone"), ("lost", "solved by A alone")):
        tasks = [printable(task) for task in row[name][:most]]
        more = [f"... and {len(row[name]) - len(tasks)} more: --tasks N or --json"] if len(row[name]) > len(tasks) else []
        lines += [f"{what}: {len(row[name])}", *(f"  {line}" for line in (*tasks, *more))]
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    gap = row["difference"]
    rows = f"{100 * gap['mean']:+.1f} [{100 * gap['low']:+.1f}, {100 * gap['high']:+.1f}]"
    a, b = (f"{100 * row[side]:.1f}" for side in "ab")
    return str(gap["units"]), a, b, rows, str(len(row["gained"])), str(len(row["lost"]))


def _short(value: object) -> str:
    rows = printable(json.dumps(value))
    return rows if len(rows) <= 120 else f"{rows[:117]}..."
