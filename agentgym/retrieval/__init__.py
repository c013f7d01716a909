"""Finding documents: one protocol, and retrievers in memory, on disk, by meaning, and behind an address."""

from agentgym.retrieval.documents import Document
from agentgym.retrieval.protocol import Hit, Retriever

__all__ = ["Document", "Hit", "Retriever"]
