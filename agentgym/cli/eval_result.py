"""Output of a finished evaluation: tables, usage and notes."""

import json
import sys
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from agentgym.cli.eval_screen import aggregates, contamination_notes, effort, money, table
from agentgym.cli.rows import say
from agentgym.core.screen import printable
from agentgym.episodes.confidence import sentence as calibrated
from agentgym.episodes.episode import Episode
from agentgym.evaluate import choosing, exploiting, manifest
from agentgym.evaluate.protocol import too_many_faults
from agentgym.evaluate.regret import sentence
from agentgym.evaluate.replies import cut_warning
from agentgym.report.html import write_report

JsonObject = dict[str, Any]


class OutputFlags(Protocol):
    """Flags used by this module."""

    @property
    def json(self) -> bool:
        """Print only the summary, as JSON."""
        ...

    @property
    def quiet(self) -> bool:
        """Print only the results."""
        ...


def show(config: OutputFlags, console: Console, folder: Path, summary: JsonObject, episodes: list[Episode]) -> None:
    """Print the results and write the report, depending on the flags."""
    if config.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
        return
    about = manifest.read(folder / "manifest.json")
    if warning := cut_warning(summary, about["options"]):
        say(console, warning, "bold yellow")
    console.print(table(summary), soft_wrap=True)
    if config.quiet:
        write_report(folder)
        if too_many_faults(episodes):
            print(printable(summary["comparable"]), file=sys.stderr)
        return
    console.print()
    console.print(effort(summary), soft_wrap=True)
    page = write_report(folder)
    notes = [
        *money(summary),
        *aggregates(summary),
        *contamination_notes(summary),
        *(sentence(env, row) for env, row in summary.get("regret", {}).items()),
        *([calibrated(summary["calibration"])] if "calibration" in summary else ()),
        *(choosing.sentence(env, row) for env, row in summary.get("votes", {}).items()),
        *(exploiting.sentence(env, row) for env, row in summary.get("exploitability", {}).items()),
        summary["comparable"],
        f"{folder}: {page.name} shows the episodes; summary.md, summary.json, episodes.jsonl, manifest.json",
    ]
    if met := manifest.met(about):
        notes.append(f"server errors: {', '.join(f'{count} x {what}' for what, count in met.items())}")
    if adapted := manifest.adapted(about):
        changes = ", ".join(f"{name} ({what})" for name, what in adapted.items())
        notes.append(f"the server refused parameters, and requests went on without them: {changes}")
    faults = [episode for episode in episodes if episode.fault]
    if faults:
        last = (faults[0].error or faults[0].reason).strip().splitlines()[-1]
        notes.append(
            f"{len(faults)} infrastructure errors, left out of the rates; the first: {last[:300]!r}. --retry-faults plays "
            "those episodes again"
        )
    for note in notes:
        say(console, note)
