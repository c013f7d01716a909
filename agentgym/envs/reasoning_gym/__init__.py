"""Every task of the `reasoning-gym` package as an environment (extra `reasoning-gym`)."""

from agentgym.envs.reasoning_gym.env import ReasoningGym

__all__ = ["ReasoningGym"]
