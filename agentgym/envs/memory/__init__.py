"""Memory over a long stream: facts are stated, corrected, contradicted or expire, and questions ask about them."""

from agentgym.envs.memory.env import Memory

__all__ = ["Memory"]
