"""Household environment with ALFWorld's rules and words in plain Python, over generated or genuine houses."""

from agentgym.envs.household.env import HouseEnv, Household

__all__ = ["HouseEnv", "Household"]
