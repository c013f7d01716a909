"""BM25 retrieval from memory, computed by bm25s."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from agentgym.retrieval.documents import Document, query_words, searched, searched_parts, title_key
from agentgym.retrieval.protocol import K1, LONGEST, B, Hit


class Corpus:
    """Immutable documents, searched by words (BM25, Lucene's form) and looked up by title or id.

    The index is built at the first search, in about 60 microseconds per document.
    """

    blocking = False

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = list(documents)
        self._by_id: dict[str, int] = {}
        self._by_title: dict[str, list[int]] = {}
        for number, document in enumerate(self.documents):
            self._by_id.setdefault(document.id, number)
            self._by_title.setdefault(title_key(document.title), []).append(number)

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.documents)

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return, for each query, the best `count` documents that contain at least one of its words."""
        return [self._search(query, count) for query in queries]

    def _search(self, query: str, count: int) -> list[Hit]:
        scores: Any = None  # [documents]
        for (index, vocabulary), tokens in zip(self._indexes, query_words(query[:LONGEST]), strict=True):
            known = [vocabulary[token] for token in tokens if token in vocabulary]
            if known:
                found = index.get_scores_from_ids(known)
                scores = found if scores is None else scores + found
        if scores is None:
            return []
        best = np.argsort(-scores, kind="stable")[:count] if len(scores) <= max(4096, count) else _top(scores, count)
        return [Hit(self.documents[number], float(scores[number])) for number in best if scores[number] > 0]

    def titled(self, name: str) -> list[Document]:
        """Return the documents with this title, ignoring case and quotes."""
        return [self.documents[number] for number in self._by_title.get(title_key(name), ())]

    def find(self, id: str) -> Document | None:
        """Return the document with this id, or None."""
        number = self._by_id.get(id)
        return None if number is None else self.documents[number]

    def unique(self, document: Document) -> bool:
        """Return True if no other document has this document's title."""
        return len(self._by_title[title_key(document.title)]) == 1

    def close(self) -> None:
        """Do nothing: a corpus in memory has nothing to close."""

    @cached_property
    def _indexes(self) -> tuple["_Index", "_Index"]:
        """Index of `words` and index of `parts`; they are separate so that parts do not affect the scores of words."""
        return self._index(searched), self._index(searched_parts)

    def _index(self, tokens: Callable[[Document], list[str]]) -> "_Index":
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokens(document)] for document in self.documents]
        if not vocabulary:
            return None, {}
        import bm25s  # pyright: ignore[reportMissingTypeStubs]  # no types; late: it loads scipy, and few episodes search

        index = cast("Any", bm25s.BM25)(method="lucene", k1=K1, b=B, backend="numpy")
        index.index((ids, dict(vocabulary)), show_progress=False)  # a copy, because it adds an empty word to its argument
        return index, vocabulary


_Index = tuple[Any, dict[str, int]]


def _top(scores: Any, count: int) -> Any:
    """Return the indices, int [count], of the best of `scores` [documents], best first; ties keep their order."""
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]
