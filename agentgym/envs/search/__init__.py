"""Multi-hop question answering with a search engine over generated worlds, HotpotQA, or your own documents."""

from agentgym.envs.search.env import Search
from agentgym.envs.search.search_r1 import SearchR1

__all__ = ["Search", "SearchR1"]
