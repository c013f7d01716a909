"""agentgym: text worlds with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

import importlib
from typing import TYPE_CHECKING, Any

from agentgym.actions import Call, Tool, tool
from agentgym.core import Outcome, Snapshot, TextEnv
from agentgym.engines import Completion, Sampling, engine
from agentgym.episode import Episode, Group, Turn, groups, read_episodes
from agentgym.errors import BadConfig, BadData, EpisodeOver, Fault, MissingExtra, UnknownName
from agentgym.evaluate.statistics import success
from agentgym.registry import make, register, register_all
from agentgym.rollout import acollect, collect, play_out
from agentgym.splits import Task
from agentgym.wrapper import TextWrapper

if TYPE_CHECKING:
    from agentgym.trainers.credit import credit

__version__ = "0.1.0"

__all__ = [
    "BadConfig",
    "BadData",
    "Call",
    "Completion",
    "Episode",
    "EpisodeOver",
    "Fault",
    "Group",
    "MissingExtra",
    "Outcome",
    "Sampling",
    "Snapshot",
    "Task",
    "TextEnv",
    "TextWrapper",
    "Tool",
    "Turn",
    "UnknownName",
    "__version__",
    "credit",
    "engine",
    "groups",
    "make",
    "read_episodes",
    "register",
    "register_all",
    "success",
    "tool",
]

_LATE = {"credit": "agentgym.trainers.credit"}  # imported when first asked for


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_all()
