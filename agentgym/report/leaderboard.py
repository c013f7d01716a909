"""Self-contained HTML page of a leaderboard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.core.folders import write_whole
from agentgym.report.html import page

SCRIPTS = ("nodes.js", "tables.js", "leaderboard.js")


def write_leaderboard(board: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page of a result of `agentgym.evaluate.leaderboard` and return its path."""
    title = f"Leaderboard · {board['protocol'] or ', '.join(board['envs'])}"
    write_whole(Path(path), page(title, {"title": title, **board}, body="leaderboard.html", scripts=SCRIPTS))
    return Path(path)
