"""Table of solvers by task name."""

from agentgym.envs.miniwob import solve_click, solve_find, solve_form
from agentgym.envs.miniwob.page import Page, Solver

SOLVERS: dict[str, Solver] = {**solve_click.SOLVERS, **solve_form.SOLVERS, **solve_find.SOLVERS}
FRAGILE = frozenset({"click-button-sequence", "tic-tac-toe"})
"""Tasks that one wrong step can make unsolvable without ending the episode."""
DEFAULT = tuple(sorted(set(SOLVERS) - FRAGILE))

__all__ = ["DEFAULT", "FRAGILE", "SOLVERS", "Page", "Solver"]
