"""MiniWoB++ environment: small web pages with one task each."""

from agentgym.envs.miniwob.env import MiniWoB

__all__ = ["MiniWoB"]
