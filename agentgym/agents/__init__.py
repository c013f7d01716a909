"""Agents: what stands between an environment's text and a model's tokens. Imported when first asked for."""

import importlib
from typing import Any

EXPORTS = {
    "ChatAgent": "agentgym.agents.chat",
    "WindowAgent": "agentgym.agents.window",
    "MessageAgent": "agentgym.agents.message_agent",
    "CompletionAgent": "agentgym.agents.completion",
    "SummaryAgent": "agentgym.agents.summary",
    "OracleAgent": "agentgym.agents.policies",
    "ExpertAgent": "agentgym.agents.policies",
    "RandomAgent": "agentgym.agents.policies",
    "HumanAgent": "agentgym.agents.policies",
    "Demonstrator": "agentgym.agents.demonstrator",
    "Noise": "agentgym.agents.policies",
    "consult": "agentgym.agents.base",
}


def __getattr__(name: str) -> Any:
    if name in EXPORTS:
        return getattr(importlib.import_module(EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
