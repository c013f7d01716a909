"""A collection of documents and its BM25 index."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import bm25s  # pyright: ignore[reportMissingTypeStubs]  # the library ships no types
import numpy as np

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Document:
    """One text to find."""

    id: str
    title: str
    text: str


class Corpus:
    """Documents that can be searched by words (BM25, Lucene's form) and opened by title or id; never changes.

    The index is built at the first search: about 60 microseconds a document.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = list(documents)
        self._by_id: dict[str, int] = {}
        self._by_title: dict[str, list[int]] = {}
        for number, document in enumerate(self.documents):
            self._by_id.setdefault(document.id, number)
            self._by_title.setdefault(_key(document.title), []).append(number)

    def __len__(self) -> int:
        return len(self.documents)

    def search(self, query: str, count: int) -> list[int]:
        """Return the numbers of the best `count` documents, best first, ties in document order; no hit, no entry."""
        index, vocabulary = self._index
        tokens = [vocabulary[word] for word in words(query) if word in vocabulary]
        if not tokens:
            return []
        scores = index.get_scores_from_ids(tokens)  # [documents]
        best = np.argsort(-scores, kind="stable")[:count] if len(scores) <= 4096 else _top(scores, count)
        return [int(number) for number in best if scores[number] > 0]

    def titled(self, name: str) -> list[int]:
        """Return the numbers of the documents with that title, capitals and quotes aside, or else with that id."""
        found = self._by_title.get(_key(name))
        if found is None:
            number = self._by_id.get(name.strip())
            found = [] if number is None else [number]
        return found

    def number_of(self, id: str) -> int:
        """Return the number of the document with that id."""
        return self._by_id[id]

    def unique(self, number: int) -> bool:
        """Return whether the document's title is its own."""
        return len(self._by_title[_key(self.documents[number].title)]) == 1

    @cached_property
    def _index(self) -> tuple[Any, dict[str, int]]:
        vocabulary: dict[str, int] = {}
        ids = [
            [vocabulary.setdefault(word, len(vocabulary)) for word in words(f"{document.title} {document.text}")]
            for document in self.documents
        ]
        if not vocabulary:
            return None, {}
        index = cast("Any", bm25s.BM25)(method="lucene", backend="numpy")
        index.index((ids, vocabulary), show_progress=False)
        return index, vocabulary


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def _key(title: str) -> str:
    return " ".join(title.strip().strip('"').casefold().split())


def _top(scores: Any, count: int) -> Any:
    """Return the indices of the best scores without sorting all of them; the same as a stable sort would."""
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]
