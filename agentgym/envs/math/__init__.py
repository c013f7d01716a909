"""Mathematics with a Python tool: generated families, and GSM8K- and MATH-style files."""

from agentgym.envs.math.env import Math

__all__ = ["Math"]
