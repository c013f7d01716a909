"""agentgym: text environments with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

import importlib
from typing import TYPE_CHECKING, Any

from agentgym.agents import EXPORTS as _AGENTS
from agentgym.core.actions import Call, Tool, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Snapshot, TextEnv
from agentgym.core.hints import Hint
from agentgym.core.outcome import Info, RoleReward
from agentgym.core.tasks import Task
from agentgym.core.wrapper import TextWrapper
from agentgym.errors import BadConfig, BadData, EpisodeOver, Fault, MissingExtra, UnknownName
from agentgym.registry import make, register, register_all

if TYPE_CHECKING:
    from agentgym.agents.chat import ChatAgent
    from agentgym.agents.demonstrator import Demonstrator
    from agentgym.agents.message_agent import MessageAgent
    from agentgym.agents.policies import ExpertAgent, HumanAgent, Noise, OracleAgent, RandomAgent
    from agentgym.agents.summary import SummaryAgent
    from agentgym.agents.window import WindowAgent
    from agentgym.engines import Completion, Sampling, engine
    from agentgym.episodes.episode import Episode, Group, Turn, groups, read_episodes
    from agentgym.evaluate.statistics import success
    from agentgym.rollout.alone import play
    from agentgym.rollout.collect import acollect, collect, play_out
    from agentgym.rollout.pool import RolloutConfig
    from agentgym.rollout.session import Session
    from agentgym.trainers.branching.interface import branching
    from agentgym.trainers.credit.interface import credit
    from agentgym.trainers.generation.interface import generation
    from agentgym.trainers.learners.interface import learner
    from agentgym.trainers.loggers.interface import logger
    from agentgym.trainers.losses.interface import loss
    from agentgym.trainers.needs.interface import needs
    from agentgym.trainers.rewards.interface import reward
    from agentgym.trainers.samplers.interface import sampler
    from agentgym.trainers.seam import Within
    from agentgym.trainers.selections.interface import select

__version__ = "0.1.0"

__all__ = [
    "BadConfig",
    "BadData",
    "Call",
    "ChatAgent",
    "Completion",
    "Declarations",
    "Demonstrator",
    "Episode",
    "EpisodeOver",
    "ExpertAgent",
    "Fault",
    "Group",
    "Hint",
    "HumanAgent",
    "Info",
    "MessageAgent",
    "MissingExtra",
    "Noise",
    "OracleAgent",
    "Outcome",
    "RandomAgent",
    "RoleReward",
    "RolloutConfig",
    "Sampling",
    "Session",
    "Snapshot",
    "SummaryAgent",
    "Task",
    "TextEnv",
    "TextWrapper",
    "Tool",
    "Turn",
    "UnknownName",
    "WindowAgent",
    "Within",
    "__version__",
    "acollect",
    "branching",
    "collect",
    "credit",
    "engine",
    "generation",
    "groups",
    "learner",
    "logger",
    "loss",
    "make",
    "needs",
    "play",
    "play_out",
    "read_episodes",
    "register",
    "register_all",
    "reward",
    "sampler",
    "select",
    "success",
    "tool",
]

_LATE = {
    "Completion": "agentgym.engines",
    "Sampling": "agentgym.engines",
    "engine": "agentgym.engines",
    "Episode": "agentgym.episodes.episode",
    "Group": "agentgym.episodes.episode",
    "Turn": "agentgym.episodes.episode",
    "groups": "agentgym.episodes.episode",
    "read_episodes": "agentgym.episodes.episode",
    "success": "agentgym.evaluate.statistics",
    "play": "agentgym.rollout.alone",
    "acollect": "agentgym.rollout.collect",
    "collect": "agentgym.rollout.collect",
    "play_out": "agentgym.rollout.collect",
    "RolloutConfig": "agentgym.rollout.pool",
    "branching": "agentgym.trainers.branching.interface",
    "credit": "agentgym.trainers.credit.interface",
    "generation": "agentgym.trainers.generation.interface",
    "learner": "agentgym.trainers.learners.interface",
    "logger": "agentgym.trainers.loggers.interface",
    "loss": "agentgym.trainers.losses.interface",
    "needs": "agentgym.trainers.needs.interface",
    "reward": "agentgym.trainers.rewards.interface",
    "sampler": "agentgym.trainers.samplers.interface",
    "Within": "agentgym.trainers.seam",
    "select": "agentgym.trainers.selections.interface",
    "Session": "agentgym.rollout.session",
    **_AGENTS,
}  # imported when first asked for


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_all()
