"""ScienceWorld's thirty tasks in its own simulator; requires the extra `scienceworld` and Java."""

from agentgym.envs.scienceworld.env import ScienceWorld

__all__ = ["ScienceWorld"]
