"""Games of the `textworld` package, generated on demand; requires the extra `textworld`."""

from agentgym.envs.textworld.env import TextWorld

__all__ = ["TextWorld"]
