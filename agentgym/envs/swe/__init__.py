"""Repositories with a bug, an issue that describes it, and hidden tests that decide; see `world.py`."""

from agentgym.envs.swe.world import SWE

__all__ = ["SWE"]
