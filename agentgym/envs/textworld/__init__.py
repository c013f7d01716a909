"""Games of the `textworld` package, made on the spot (extra `textworld`)."""

from agentgym.envs.textworld.env import TextWorld

__all__ = ["TextWorld"]
