"""agentgym: text environments with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; a name stands here and in _LATE
    from agentgym.agents.base import consult as consult
    from agentgym.agents.chat import ChatAgent as ChatAgent
    from agentgym.agents.completion import CompletionAgent as CompletionAgent
    from agentgym.agents.demonstrator import Demonstrator as Demonstrator
    from agentgym.agents.message_agent import MessageAgent as MessageAgent
    from agentgym.agents.policies import ExpertAgent as ExpertAgent
    from agentgym.agents.policies import HumanAgent as HumanAgent
    from agentgym.agents.policies import Noise as Noise
    from agentgym.agents.policies import OracleAgent as OracleAgent
    from agentgym.agents.policies import RandomAgent as RandomAgent
    from agentgym.agents.summary import SummaryAgent as SummaryAgent
    from agentgym.agents.window import WindowAgent as WindowAgent
    from agentgym.core.actions import Call as Call
    from agentgym.core.actions import Tool as Tool
    from agentgym.core.actions import tool as tool
    from agentgym.core.declared import Declarations as Declarations
    from agentgym.core.env import Outcome as Outcome
    from agentgym.core.env import Snapshot as Snapshot
    from agentgym.core.env import TextEnv as TextEnv
    from agentgym.core.hints import Hint as Hint
    from agentgym.core.outcome import Info as Info
    from agentgym.core.outcome import RoleReward as RoleReward
    from agentgym.core.tasks import Task as Task
    from agentgym.core.wrapper import TextWrapper as TextWrapper
    from agentgym.engines import Completion as Completion
    from agentgym.engines import Sampling as Sampling
    from agentgym.engines import engine as engine
    from agentgym.episodes.episode import Episode as Episode
    from agentgym.episodes.episode import Group as Group
    from agentgym.episodes.episode import Turn as Turn
    from agentgym.episodes.episode import groups as groups
    from agentgym.episodes.episode import read_episodes as read_episodes
    from agentgym.errors import BadConfig as BadConfig
    from agentgym.errors import BadData as BadData
    from agentgym.errors import EpisodeOver as EpisodeOver
    from agentgym.errors import Fault as Fault
    from agentgym.errors import MissingExtra as MissingExtra
    from agentgym.errors import UnknownName as UnknownName
    from agentgym.evaluate.statistics import success as success
    from agentgym.registry import make as make
    from agentgym.registry import register as register
    from agentgym.registry import register_all as register_all
    from agentgym.rollout.alone import play as play
    from agentgym.rollout.collect import acollect as acollect
    from agentgym.rollout.collect import collect as collect
    from agentgym.rollout.collect import play_out as play_out
    from agentgym.rollout.pool import RolloutConfig as RolloutConfig
    from agentgym.rollout.session import Session as Session
    from agentgym.trainers.branching.interface import branching as branching
    from agentgym.trainers.credit.interface import credit as credit
    from agentgym.trainers.generation.interface import generation as generation
    from agentgym.trainers.learners.interface import learner as learner
    from agentgym.trainers.loggers.interface import logger as logger
    from agentgym.trainers.losses.interface import loss as loss
    from agentgym.trainers.needs.interface import needs as needs
    from agentgym.trainers.rewards.interface import reward as reward
    from agentgym.trainers.samplers.interface import sampler as sampler
    from agentgym.trainers.seam import Within as Within
    from agentgym.trainers.selections.interface import select as select

__version__ = "0.1.0"

_LATE = {
    "consult": "agentgym.agents.base",
    "ChatAgent": "agentgym.agents.chat",
    "CompletionAgent": "agentgym.agents.completion",
    "Demonstrator": "agentgym.agents.demonstrator",
    "MessageAgent": "agentgym.agents.message_agent",
    "ExpertAgent": "agentgym.agents.policies",
    "HumanAgent": "agentgym.agents.policies",
    "Noise": "agentgym.agents.policies",
    "OracleAgent": "agentgym.agents.policies",
    "RandomAgent": "agentgym.agents.policies",
    "SummaryAgent": "agentgym.agents.summary",
    "WindowAgent": "agentgym.agents.window",
    "Call": "agentgym.core.actions",
    "Tool": "agentgym.core.actions",
    "tool": "agentgym.core.actions",
    "Declarations": "agentgym.core.declared",
    "Outcome": "agentgym.core.env",
    "Snapshot": "agentgym.core.env",
    "TextEnv": "agentgym.core.env",
    "Hint": "agentgym.core.hints",
    "Info": "agentgym.core.outcome",
    "RoleReward": "agentgym.core.outcome",
    "Task": "agentgym.core.tasks",
    "TextWrapper": "agentgym.core.wrapper",
    "Completion": "agentgym.engines",
    "Sampling": "agentgym.engines",
    "engine": "agentgym.engines",
    "Episode": "agentgym.episodes.episode",
    "Group": "agentgym.episodes.episode",
    "Turn": "agentgym.episodes.episode",
    "groups": "agentgym.episodes.episode",
    "read_episodes": "agentgym.episodes.episode",
    "BadConfig": "agentgym.errors",
    "BadData": "agentgym.errors",
    "EpisodeOver": "agentgym.errors",
    "Fault": "agentgym.errors",
    "MissingExtra": "agentgym.errors",
    "UnknownName": "agentgym.errors",
    "success": "agentgym.evaluate.statistics",
    "make": "agentgym.registry",
    "register": "agentgym.registry",
    "register_all": "agentgym.registry",
    "play": "agentgym.rollout.alone",
    "acollect": "agentgym.rollout.collect",
    "collect": "agentgym.rollout.collect",
    "play_out": "agentgym.rollout.collect",
    "RolloutConfig": "agentgym.rollout.pool",
    "Session": "agentgym.rollout.session",
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
}
"""Modules of the public names. A module is imported when one of its names is first asked for."""

if not TYPE_CHECKING:  # type checkers accept no computed list
    __all__ = [*_LATE, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


class _WithGymnasium:
    """Import hook that registers the environments once somebody imports Gymnasium, which takes 0.2 s of CPU time.

    It then removes itself. Gymnasium has no entry points for packages with environments.
    """

    searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return Gymnasium's spec with a loader that then imports the registry, and None for every other module."""
        if name != "gymnasium" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
                importlib.import_module("agentgym.registry")

            spec.loader.exec_module = exec_module
        return spec


if "gymnasium" in sys.modules:
    importlib.import_module("agentgym.registry")
else:
    sys.meta_path.insert(0, _WithGymnasium())
