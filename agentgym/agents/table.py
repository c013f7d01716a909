"""Everything that can play an environment, by name: agents with a language model, and policies that need none."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """An agent or a policy that has a name."""

    path: str
    """Its class, as MODULE:NAME."""
    about: str
    """Description in a few words."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options of `AgentSpec` that it alone takes, each with the keyword of its class."""
    messages: bool = False
    """True if it can also play over plain chat."""
    attended: bool = False
    """True if a person must be present."""

    def load(self) -> Any:
        """Return its class; it is imported now."""
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
"""Agents with a language model, which `train` and `eval` take as `--agent`."""
POLICIES: dict[str, Entry] = {
    "oracle": Entry("agentgym.agents.policies:OracleAgent", "the environment's own solution"),
    "expert": Entry("agentgym.agents.policies:ExpertAgent", "an expert that sees only what the agent sees"),
    "random": Entry("agentgym.agents.policies:RandomAgent", "a random admissible command or tool call"),
    "human": Entry("agentgym.agents.policies:HumanAgent", "a person at the terminal", attended=True),
}
"""Policies without a language model, which `eval` and `play` take as `--policy`; `eval` only those that need no
person.
"""
UNATTENDED = {name: entry for name, entry in POLICIES.items() if not entry.attended}
