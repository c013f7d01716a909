"""Facts about the package's environments for `agentgym envs`, so that the list need not import or create them.

`tests/cli/test_env_facts.py` compares each row with its environment. Some environments have no row, because they need
data or a path from the user, or belong to another package; the list creates these.
"""

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about an environment, as `agentgym envs` lists them if all requirements are installed."""

    tools: int = 0
    """Number of tools with default options; 0 for plain text."""
    needs: tuple[str, ...] = ()
    """Requirements: packages and programs by name, `bubblewrap`, or `browser`."""
    splits: tuple[str, ...] = ("train", "valid", "test")


FACTS: dict[str, Facts] = {
    "rlvr/BabyAI-v0": Facts(needs=("minigrid",)),
    "rlvr/Code-v0": Facts(3, needs=("bubblewrap",)),
    "rlvr/CodeDialogue-v0": Facts(3, needs=("bubblewrap",)),
    "rlvr/ConnectFour-v0": Facts(),
    "rlvr/Desk-v0": Facts(53),
    "rlvr/FrozenLake-v0": Facts(),
    "rlvr/Functions-v0": Facts(3),
    "rlvr/GuessNumber-v0": Facts(),
    "rlvr/Household-v0": Facts(splits=("train", "valid_seen", "valid_unseen")),
    "rlvr/Instructions-v0": Facts(),
    "rlvr/KuhnPoker-v0": Facts(),
    "rlvr/Math-v0": Facts(2, needs=("bubblewrap",)),
    "rlvr/Memory-v0": Facts(5),
    "rlvr/MiniWoB-v0": Facts(12, needs=("miniwob", "browser")),
    "rlvr/Negotiation-v0": Facts(),
    "rlvr/ReasoningGym-v0": Facts(1, needs=("reasoning_gym",)),
    "rlvr/SQL-v0": Facts(3),
    "rlvr/SWE-v0": Facts(4, needs=("bubblewrap", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")),
    "rlvr/ScienceWorld-v0": Facts(needs=("scienceworld", "java"), splits=("train", "dev", "test")),
    "rlvr/Search-v0": Facts(3),
    "rlvr/SearchR1-v0": Facts(),
    "rlvr/Shop-v0": Facts(),
    "rlvr/Sokoban-v0": Facts(),
    "rlvr/TextCraft-v0": Facts(),
    "rlvr/TextWorld-v0": Facts(needs=("textworld",)),
    "rlvr/TicTacToe-v0": Facts(),
    "rlvr/TwentyQuestions-v0": Facts(2),
    "rlvr/Web-v0": Facts(9, needs=("browser",)),
    "rlvr/Wordle-v0": Facts(),
}


def known(id: str) -> Facts | None:
    """Return the facts of an environment if its requirements are installed; None if it must be created to find out."""
    facts = FACTS.get(id)
    return facts if facts and all(_here(name) for name in facts.needs) else None


def _here(name: str) -> bool:
    if name in _CHECKS:
        return _CHECKS[name]()
    return shutil.which(name) is not None or importlib.util.find_spec(name) is not None


def _bubblewrap() -> bool:
    from agentgym.sandbox.protocol import missing

    return not missing("bubblewrap")


def _browser() -> bool:
    from agentgym.browser import chromium

    return all(importlib.util.find_spec(name) for name in ("playwright", "waitress")) and chromium() is not None


_CHECKS: dict[str, Callable[[], bool]] = {"bubblewrap": _bubblewrap, "browser": _browser}
