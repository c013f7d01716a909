"""The thirty tasks of ScienceWorld, in its own simulator (extra `scienceworld`, and Java)."""

from agentgym.envs.scienceworld.world import ScienceWorld

__all__ = ["ScienceWorld"]
