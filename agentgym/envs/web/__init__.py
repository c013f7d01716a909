"""A real browser over embedded sites; the sites' databases or the answer decide success."""

from agentgym.envs.web.env import Web

__all__ = ["Web"]
