"""The thirty tasks of ScienceWorld, in its own simulator (extra `scienceworld`, and Java)."""

from agentgym.envs.scienceworld.env import ScienceWorld

__all__ = ["ScienceWorld"]
