"""Questions about databases, answered with SQL."""

from agentgym.envs.sql.env import SQL

__all__ = ["SQL"]
