"""Function calling over many generated functions, judged by the final state rather than the calls."""

from agentgym.envs.functions.env import Functions

__all__ = ["Functions"]
