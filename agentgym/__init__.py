"""agentgym: text worlds with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

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
    "engine",
    "groups",
    "make",
    "read_episodes",
    "register",
    "register_all",
    "success",
    "tool",
]

register_all()
