"""agentgym: text worlds with verifiable rewards, an agent loop with exact tokens, turn-level credit."""

from agentgym.actions import Call, Tool, tool
from agentgym.core import Outcome, Snapshot, Task, TextEnv, TextWrapper
from agentgym.engines import Completion, Sampling, engine
from agentgym.episode import Episode, Group, Turn, groups, read_episodes
from agentgym.errors import BadConfig, BadData, EpisodeOver, Fault, MissingExtra, UnknownName
from agentgym.evaluate.statistics import success
from agentgym.registry import make, register, register_all

__version__ = "0.1.0"

register_all()
