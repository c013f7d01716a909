"""What every retriever promises, wherever its documents and its index are."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agentgym.retrieval.documents import Document

LONGEST = 8192
"""Characters of a query that are read; the rest of a longer one counts for nothing."""

K1, B = 1.2, 0.75
"""BM25's parameters, as Lucene has them."""


class Hit(NamedTuple):
    """A document that was found, and how well it fits; scores of different retrievers are not comparable."""

    document: Document
    score: float


class Retriever(Protocol):
    """Finds documents by a query; may be used by many threads at once.

    What a query finds never depends on the queries beside it, and equal scores stand in the order of the corpus.
    """

    @property
    def size(self) -> int | None:
        """How many documents there are; None where the retriever cannot know."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether a search may wait for another process or machine."""
        ...

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the best `count` documents of each query, best first; Fault where the retriever fails."""
        ...

    def titled(self, name: str) -> list[Document]:
        """Return the documents with that title, capitals and quotes aside."""
        ...

    def find(self, id: str) -> Document | None:
        """Return the document with that id, if it is known."""
        ...

    def unique(self, document: Document) -> bool:
        """Return whether the document's title is certainly its own."""
        ...

    def close(self) -> None:
        """Free what is held."""
