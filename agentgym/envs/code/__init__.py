"""Write a program that passes hidden tests."""

from agentgym.envs.code.world import Code

__all__ = ["Code"]
