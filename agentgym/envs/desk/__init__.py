"""A service desk: tools over a database, a written policy, and a user who says only what is asked."""

from agentgym.envs.desk.env import Desk

__all__ = ["Desk"]
