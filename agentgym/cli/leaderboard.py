"""Rank several evaluations of the same tasks in a table, and write it as a self-contained HTML page.

agentgym leaderboard runs/eval-a runs/eval-b runs/eval-c --out board.html
agentgym leaderboard runs/eval-* --reference runs/eval-grpo runs/eval-gigpo    differences from both, next to every number

Evaluations of different tasks or protocols are refused.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.rows import say
from agentgym.core.screen import printable
from agentgym.errors import BadConfig
from agentgym.evaluate.leaderboard import leaderboard
from agentgym.options import Positional
from agentgym.report.leaderboard import write_leaderboard


@dataclass(frozen=True)
class Config:
    """Options of `agentgym leaderboard`."""

    evaluations: Positional[tuple[str, ...]]
    """Folders that `agentgym eval` wrote (or the episodes.jsonl in them), or logs: folders of Harbor's jobs, .eval files of
    inspect_ai, ATIF documents."""
    out: str = "leaderboard.html"
    """The page to write."""
    reference: tuple[str, ...] = ()
    """Evaluations to compare with, such as your GRPO and GiGPO baselines; default: the best one."""
    json: bool = False
    """Print JSON and write no page."""


def run(config: Config) -> int:
    """Print the table and write the page.

    Raises:
        BadConfig: the page cannot be written.
    """
    if Path(config.out).is_dir() or not Path(config.out).parent.is_dir():
        raise BadConfig(f"--out is {config.out}; expected the name of a file in a folder that exists")
    board = leaderboard(config.evaluations, config.reference)
    if config.json:
        print(json.dumps(board, indent=2))
        return 0
    console = Console(highlight=False)
    protocol = f"protocol {board['protocol']}" if board["protocol"] else "no protocol"
    say(console, f"{protocol}, {board['tasks']} tasks, task ids {board['task_ids']}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    against = [f"minus {base}\n95 %, paired" for base in board["references"]]
    for place, name in enumerate(("evaluation", "success", "95 %", *against, "infrastructure errors")):
        width = len("infrastructure") if name == "infrastructure errors" else None  # a word that is not cut
        table.add_column(Text(printable(name)), justify="right" if place else "left", min_width=width)
    for entry in board["entries"]:
        rate, out = entry["success"], bool(entry["not_comparable"])
        table.add_row(
            Text(printable(entry["name"])),
            "not comparable" if out else f"{rate['mean']:.1%}",
            "" if out else f"{rate['low']:.1%} to {rate['high']:.1%}",
            *(_gap(entry["differences"].get(base)) for base in board["references"]),
            f"{entry['fault_share']:.1%}",
        )
    console.print(table)
    console.print(str(write_leaderboard(board, config.out)), markup=False, soft_wrap=True)
    return 0


def _gap(gap: dict[str, float] | None) -> str:
    """Return the table cell for a difference between success rates and its interval."""
    if gap is None:
        return ""
    return f"{100 * gap['mean']:+.1f} points\n{100 * gap['low']:+.1f} to {100 * gap['high']:+.1f}"
