"""Repositories with a bug, an issue that describes it, and hidden tests; see `env.py`."""

from agentgym.envs.swe.env import SWE

__all__ = ["SWE"]
