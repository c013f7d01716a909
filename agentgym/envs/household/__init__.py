"""A household like ALFWorld's: the same rules and words in plain Python, over generated or genuine houses."""

from agentgym.envs.household.env import HouseEnv, Household

__all__ = ["HouseEnv", "Household"]
