"""Service desk environment: tools over a database, a written policy, and a customer who volunteers nothing."""

from agentgym.envs.desk.env import Desk

__all__ = ["Desk"]
