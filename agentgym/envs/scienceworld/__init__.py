"""ScienceWorld's thirty tasks in its own simulator (extra `scienceworld`, and Java)."""

from agentgym.envs.scienceworld.env import ScienceWorld

__all__ = ["ScienceWorld"]
