"""Web environment: a real browser on embedded sites; their databases and the agent's answer decide success."""

from agentgym.envs.web.env import Web

__all__ = ["Web"]
