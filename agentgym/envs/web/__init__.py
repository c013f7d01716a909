"""A real browser over embedded sites: tasks that the sites' databases, or the answer, decide."""

from agentgym.envs.web.env import Web

__all__ = ["Web"]
