"""Multi-turn instruction following: rules are added, changed and withdrawn, and a hierarchy decides whose rules count."""

from agentgym.envs.instructions.env import Instructions

__all__ = ["Instructions"]
