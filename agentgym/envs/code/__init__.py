"""Write a program that passes hidden tests."""

from agentgym.envs.code.dialogue import CodeDialogue
from agentgym.envs.code.env import Code

__all__ = ["Code", "CodeDialogue"]
