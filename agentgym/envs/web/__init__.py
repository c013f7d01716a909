"""A real browser over embedded sites: tasks that the sites' databases, or the answer, decide."""

from agentgym.envs.web.world import Web

__all__ = ["Web"]
