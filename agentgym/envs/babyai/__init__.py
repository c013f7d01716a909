"""BabyAI levels of the `minigrid` package as text; requires the extra `babyai`."""

from agentgym.envs.babyai.env import BabyAI

__all__ = ["BabyAI"]
