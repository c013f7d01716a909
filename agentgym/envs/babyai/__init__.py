"""BabyAI's levels (package `minigrid`) in text (extra `babyai`)."""

from agentgym.envs.babyai.env import BabyAI

__all__ = ["BabyAI"]
