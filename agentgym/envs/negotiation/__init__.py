"""A two-sided negotiation over items that each side values differently."""

from agentgym.envs.negotiation.env import Negotiation

__all__ = ["Negotiation"]
