"""An OpenAI-compatible endpoint that records external agents token by token, so that they can be trained."""

import importlib
from typing import Any

EXPORTS = {"Gateway": "agentgym.gateway.gateway", "Sessions": "agentgym.gateway.sessions", "App": "agentgym.gateway.app"}


def __getattr__(name: str) -> Any:
    if name in EXPORTS:
        return getattr(importlib.import_module(EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
