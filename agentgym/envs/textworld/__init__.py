"""Games of the `textworld` package, generated on demand (extra `textworld`)."""

from agentgym.envs.textworld.env import TextWorld

__all__ = ["TextWorld"]
