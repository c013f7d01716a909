"""Every task of the `reasoning-gym` package as a world (extra `reasoning-gym`)."""

from agentgym.envs.reasoning_gym.world import ReasoningGym

__all__ = ["ReasoningGym"]
