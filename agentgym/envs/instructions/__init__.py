"""Multi-turn instruction following: rules that are added, changed and withdrawn, with a hierarchy of who may make them."""

from agentgym.envs.instructions.env import Instructions

__all__ = ["Instructions"]
