"""Task folders of Harbor (Terminal-Bench) as an environment."""

from agentgym.envs.terminal.harbor.env import Harbor, registered

__all__ = ["Harbor", "registered"]
