"""A two-sided negotiation over things that each side values differently."""

from agentgym.envs.negotiation.env import Negotiation

__all__ = ["Negotiation"]
