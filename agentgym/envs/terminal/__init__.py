"""A shell in a jail: generated tasks, and task folders of Harbor (Terminal-Bench)."""

from agentgym.envs.terminal.harbor import Harbor
from agentgym.envs.terminal.world import Terminal

__all__ = ["Harbor", "Terminal"]
