"""MiniWoB++: small pages, each with one thing to do."""

from agentgym.envs.miniwob.env import MiniWoB

__all__ = ["MiniWoB"]
