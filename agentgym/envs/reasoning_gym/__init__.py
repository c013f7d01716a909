"""The tasks of the `reasoning-gym` package as an environment; requires the extra `reasoning-gym`."""

from agentgym.envs.reasoning_gym.env import ReasoningGym

__all__ = ["ReasoningGym"]
