"""Function calling over many generated functions: the final state decides, never the calls."""

from agentgym.envs.functions.env import Functions

__all__ = ["Functions"]
