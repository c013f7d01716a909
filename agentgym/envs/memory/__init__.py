"""Memory over a long stream: facts that are stated, corrected, contradicted and expire, and questions about them."""

from agentgym.envs.memory.env import Memory

__all__ = ["Memory"]
