"""List the worlds, or show the card of one.

agentgym envs                           all worlds
agentgym envs rlvr/GuessNumber-v0       its card: lengths, success of random play, shortcuts and expert, costs
"""

from dataclasses import dataclass, field
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.flags import Options
from agentgym.core import TextEnv
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra
from agentgym.registry import DESCRIPTIONS, make


@dataclass(frozen=True)
class Config:
    """What to show."""

    id: tyro.conf.Positional[str | None] = None
    """Show the card of this world."""
    difficulties: tuple[int, ...] = (0, 1)
    """Difficulties on the card."""
    tasks: int = 20
    """Tasks played for each number on the card."""
    env_options: Options = field(default_factory=dict[str, Any])
    """Options of the world: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Print the table of worlds, or a card."""
    console = Console()
    console.print(worlds())
    return 0


def worlds() -> Table:
    """Return the table of every registered world."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "actions", "oracle", "splits", "what"):
        table.add_column(column, overflow="fold")
    for id in sorted(DESCRIPTIONS):
        try:
            cells = _describe(make(id))
        except (ImportError, BadConfig, BadData, MissingExtra, Fault) as error:
            cells = ("-", "-", f"not available: {str(error).splitlines()[0]}")
        table.add_row(*(Text(cell) for cell in (id, *cells, DESCRIPTIONS[id])))
    return table


def _describe(env: TextEnv) -> tuple[str, str, str]:
    actions = f"{len(env.tools)} tools" if env.tools else "text"
    oracle = "yes" if type(env).oracle is not TextEnv.oracle else "no"
    return actions, oracle, ", ".join(env.splits)
