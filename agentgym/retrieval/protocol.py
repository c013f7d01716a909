"""The interface of all retrievers, independent of where documents and index are."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agentgym.errors import Fault
from agentgym.retrieval.documents import Document

LONGEST = 8192
"""Maximum length of a query in characters; the rest is ignored."""

K1, B = 1.2, 0.75
"""BM25's parameters, with Lucene's values."""


class QueryFailed(Fault):
    """The retriever answered a query with an error; the query itself may be the cause."""


class Hit(NamedTuple):
    """A document found and its score; scores of different retrievers are not comparable."""

    document: Document
    score: float


class Retriever(Protocol):
    """Finds documents by a query; safe to use from several threads.

    A query's results never depend on the other queries in its batch, and equal scores keep the order of the corpus.
    """

    @property
    def size(self) -> int | None:
        """Number of documents; None if the retriever cannot know."""
        ...

    @property
    def blocking(self) -> bool:
        """True if a search may wait for another process or machine."""
        ...

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the best `count` documents of each query, best first; raise Fault if the retriever fails."""
        ...

    def titled(self, name: str) -> list[Document]:
        """Return the documents with this title, ignoring case and quotes."""
        ...

    def find(self, id: str) -> Document | None:
        """Return the document with this id, or None if it is unknown."""
        ...

    def unique(self, document: Document) -> bool:
        """Return True if the document's title is known to be unique in the corpus."""
        ...

    def close(self) -> None:
        """Free all resources."""
