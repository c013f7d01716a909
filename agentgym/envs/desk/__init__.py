"""A service desk: tools over a database, a written policy, and a user who volunteers nothing."""

from agentgym.envs.desk.env import Desk

__all__ = ["Desk"]
