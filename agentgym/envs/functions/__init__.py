"""Function calling over many generated functions, judged by the final state instead of the calls."""

from agentgym.envs.functions.env import Functions

__all__ = ["Functions"]
