"""A negotiation of two sides over things that each values in its own way."""

from agentgym.envs.negotiation.env import Negotiation

__all__ = ["Negotiation"]
