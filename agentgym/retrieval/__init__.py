"""Document retrieval behind one protocol: in memory, on disk, dense, or remote."""

from agentgym.retrieval.documents import Document
from agentgym.retrieval.protocol import Hit, Retriever

__all__ = ["Document", "Hit", "Retriever"]
