"""Documents in memory, found by words: BM25 by bm25s."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import bm25s  # pyright: ignore[reportMissingTypeStubs]  # the library ships no types
import numpy as np

from agentgym.retrieval.documents import Document, searched, title_key, words
from agentgym.retrieval.protocol import K1, LONGEST, B, Hit


class Corpus:
    """Documents that can be searched by words (BM25, Lucene's form) and opened by title or id; never changes.

    The index is built at the first search: about 60 microseconds a document.
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
        """How many documents there are."""
        return len(self.documents)

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the best `count` documents of each query that hold a word of it."""
        return [self._search(query, count) for query in queries]

    def _search(self, query: str, count: int) -> list[Hit]:
        index, vocabulary = self._index
        tokens = [vocabulary[word] for word in words(query[:LONGEST]) if word in vocabulary]
        if not tokens:
            return []
        scores = index.get_scores_from_ids(tokens)  # [documents]
        best = np.argsort(-scores, kind="stable")[:count] if len(scores) <= max(4096, count) else _top(scores, count)
        return [Hit(self.documents[number], float(scores[number])) for number in best if scores[number] > 0]

    def titled(self, name: str) -> list[Document]:
        """Return the documents with that title, capitals and quotes aside."""
        return [self.documents[number] for number in self._by_title.get(title_key(name), ())]

    def find(self, id: str) -> Document | None:
        """Return the document with that id."""
        number = self._by_id.get(id)
        return None if number is None else self.documents[number]

    def unique(self, document: Document) -> bool:
        """Return whether the document's title is its own."""
        return len(self._by_title[title_key(document.title)]) == 1

    def close(self) -> None:
        """Nothing is held but memory."""

    @cached_property
    def _index(self) -> tuple[Any, dict[str, int]]:
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in searched(document)] for document in self.documents]
        if not vocabulary:
            return None, {}
        index = cast("Any", bm25s.BM25)(method="lucene", k1=K1, b=B, backend="numpy")
        index.index((ids, dict(vocabulary)), show_progress=False)  # it adds an empty word to the one it is given
        return index, vocabulary


def _top(scores: Any, count: int) -> Any:
    """Return the indices of the best scores without sorting all of them; the same as a stable sort would."""
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]
