"""agentgym: text environments with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; a name stands here and in _NAMES
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

_NAMES = {
    "agentgym.agents.chat": ("ChatAgent",),
    "agentgym.agents.completion": ("CompletionAgent",),
    "agentgym.agents.demonstrator": ("Demonstrator",),
    "agentgym.agents.message_agent": ("MessageAgent",),
    "agentgym.agents.policies": ("ExpertAgent", "HumanAgent", "Noise", "OracleAgent", "RandomAgent"),
    "agentgym.agents.summary": ("SummaryAgent",),
    "agentgym.agents.window": ("WindowAgent",),
    "agentgym.core.actions": ("Call", "Tool", "tool"),
    "agentgym.core.declared": ("Declarations",),
    "agentgym.core.env": ("Outcome", "Snapshot", "TextEnv"),
    "agentgym.core.hints": ("Hint",),
    "agentgym.core.outcome": ("Info", "RoleReward"),
    "agentgym.core.tasks": ("Task",),
    "agentgym.core.wrapper": ("TextWrapper",),
    "agentgym.engines": ("Completion", "Sampling", "engine"),
    "agentgym.episodes.episode": ("Episode", "Group", "Turn", "groups", "read_episodes"),
    "agentgym.errors": ("BadConfig", "BadData", "EpisodeOver", "Fault", "MissingExtra", "UnknownName"),
    "agentgym.evaluate.statistics": ("success",),
    "agentgym.registry": ("make", "register", "register_all"),
    "agentgym.rollout.alone": ("play",),
    "agentgym.rollout.collect": ("acollect", "collect", "play_out"),
    "agentgym.rollout.pool": ("RolloutConfig",),
    "agentgym.rollout.session": ("Session",),
    "agentgym.trainers.branching.interface": ("branching",),
    "agentgym.trainers.credit.interface": ("credit",),
    "agentgym.trainers.generation.interface": ("generation",),
    "agentgym.trainers.learners.interface": ("learner",),
    "agentgym.trainers.loggers.interface": ("logger",),
    "agentgym.trainers.losses.interface": ("loss",),
    "agentgym.trainers.needs.interface": ("needs",),
    "agentgym.trainers.rewards.interface": ("reward",),
    "agentgym.trainers.samplers.interface": ("sampler",),
    "agentgym.trainers.seam": ("Within",),
    "agentgym.trainers.selections.interface": ("select",),
}
"""Public names by module. A module is imported when one of its names is first asked for."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # type checkers accept no computed list
    __all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


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
