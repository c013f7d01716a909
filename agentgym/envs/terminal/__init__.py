"""A shell in a sandbox: generated tasks, and Harbor task folders (Terminal-Bench)."""

from agentgym.envs.terminal.env import Terminal
from agentgym.envs.terminal.harbor import Harbor

__all__ = ["Harbor", "Terminal"]
