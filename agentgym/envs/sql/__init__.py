"""Questions about databases, answered with SQL."""

from agentgym.envs.sql.world import SQL

__all__ = ["SQL"]
