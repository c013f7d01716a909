"""Sokoban: the environment, its rooms, and an optimal solver."""

from agentgym.envs.sokoban.env import Sokoban

__all__ = ["Sokoban"]
