"""Names of everything that can play an environment: agents with a language model, and policies without one."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A named agent or policy."""

    path: str
    """MODULE:NAME of the class."""
    about: str
    """Description in a few words."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options of `AgentSpec` that only this agent has, each with the matching keyword of its class."""
    messages: bool = False
    """True if the agent also works over plain chat."""
    attended: bool = False
    """True if a person must be present."""

    def load(self) -> Any:
        """Import and return the class."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


AGENTS: dict[str, Entry] = {
    "chat": Entry("agentgym.agents.chat:ChatAgent", "full history", {"history": "history"}, messages=True),
    "completion": Entry("agentgym.agents.completion:CompletionAgent", "full history, as one continuing reply"),
    "window": Entry(
        "agentgym.agents.window:WindowAgent", "the last turns, a fresh prompt each", {"window_turns": "turns"}, messages=True
    ),
    "summary": Entry("agentgym.agents.summary:SummaryAgent", "the model summarizes what no longer fits"),
}
"""Agents with a language model, the values of `--agent` in `train` and `eval`."""
POLICIES: dict[str, Entry] = {
    "oracle": Entry("agentgym.agents.policies:OracleAgent", "the environment's own solution"),
    "expert": Entry("agentgym.agents.policies:ExpertAgent", "an expert that sees only what the agent sees"),
    "random": Entry("agentgym.agents.policies:RandomAgent", "a random admissible command or tool call"),
    "human": Entry("agentgym.agents.policies:HumanAgent", "a person at the terminal", attended=True),
}
"""Policies without a language model, the values of `--policy` in `eval` and `play`; `eval` excludes those that need a
person.
"""
UNATTENDED = {name: entry for name, entry in POLICIES.items() if not entry.attended}
