"""Instructions over several turns: rules that are added, changed and withdrawn, and who may make them."""

from agentgym.envs.instructions.env import Instructions

__all__ = ["Instructions"]
