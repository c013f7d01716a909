"""Agents turn an environment's text into tokens for a model, and the model's replies into actions. Imported on first use."""

import importlib
from typing import Any

from agentgym.agents.table import AGENTS, POLICIES

_PATHS = (
    *(entry.path for entry in (*AGENTS.values(), *POLICIES.values())),
    "agentgym.agents.message_agent:MessageAgent",
    "agentgym.agents.demonstrator:Demonstrator",
    "agentgym.agents.policies:Noise",
    "agentgym.agents.base:consult",
)
EXPORTS = {name: module for module, _, name in (path.partition(":") for path in _PATHS)}


def __getattr__(name: str) -> Any:
    if name in EXPORTS:
        return getattr(importlib.import_module(EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
