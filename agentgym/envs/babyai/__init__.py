"""The levels of BabyAI (package `minigrid`) told in text (extra `babyai`)."""

from agentgym.envs.babyai.env import BabyAI

__all__ = ["BabyAI"]
