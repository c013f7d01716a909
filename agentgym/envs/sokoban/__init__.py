"""Boxes to be pushed onto marks: the environment, its rooms, and the search for the shortest solution."""

from agentgym.envs.sokoban.env import Sokoban

__all__ = ["Sokoban"]
