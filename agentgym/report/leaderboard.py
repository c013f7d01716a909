"""A leaderboard as one page that needs nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.core.folders import write_whole
from agentgym.report.html import page

SCRIPTS = ("nodes.js", "tables.js", "leaderboard.js")


def write_leaderboard(board: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page of what `agentgym.evaluate.leaderboard` returned, and return where it is."""
    title = f"Leaderboard · {board['protocol'] or ', '.join(board['envs'])}"
    write_whole(Path(path), page(title, {"title": title, **board}, body="leaderboard.html", scripts=SCRIPTS))
    return Path(path)
