"""A household like ALFWorld's: the same rules and words in plain Python, over generated or genuine houses."""

from agentgym.envs.household.world import Household, HouseWorld

__all__ = ["HouseWorld", "Household"]
