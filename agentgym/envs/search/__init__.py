"""Multi-hop question answering with a search engine: generated worlds, HotpotQA, or any documents and questions."""

from agentgym.envs.search.search_r1 import SearchR1
from agentgym.envs.search.world import Search

__all__ = ["Search", "SearchR1"]
