"""Mathematics with a Python tool: generated families, and files in GSM8K's and MATH's formats."""

from agentgym.envs.math.env import Math

__all__ = ["Math"]
