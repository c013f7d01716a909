"""Products and their search, by BM25 over words from Lucene's English analyzer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]  # the library ships no types

MOST_FOUND = 50
"""Maximum number of products that a search finds, as in WebShop."""
K1, B = 0.9, 0.4
"""Parameters of BM25 in Anserini, which WebShop uses."""
LONG, LONG_WORD = 1000, 100
"""Maximum number of characters of a search that is cached, and of a word that is stemmed."""
_STOP = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to "
    "was will with"
)
STOP = frozenset(_STOP.split())
"""Lucene's English stop words."""
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_STEMMER: Any = cast("Any", snowballstemmer).stemmer("porter")


@dataclass(frozen=True, slots=True)
class Product:
    """A product for sale."""

    asin: str
    """Product id of at most ten characters (Amazon's ASIN)."""
    title: str
    category: str
    query: str
    """A typical search for this kind of product, in lower case."""
    product_category: str
    """Category path, separated by `›`."""
    description: str
    bullets: tuple[str, ...]
    price: float
    """Price in dollars; if the displayed price is a range, a price within it."""
    price_tag: str
    """Displayed price: `$12.5`, or `$12.5 to $20.0`."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Option name -> possible values, in lower case."""
    attributes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text that the search indexes, as in WebShop: title, description, first bullet point, options."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join((self.title, self.description, *self.bullets[:1], options)).lower()


class Catalogue:
    """An immutable, searchable set of products."""

    def __init__(self, products: Sequence[Product]) -> None:
        self.products = list(products)
        self.by_asin = {product.asin.lower(): product for product in self.products}
        self._found: dict[str, tuple[str, ...]] = {}

    def search(self, keywords: str) -> tuple[str, ...]:
        """Return the lower-case ids of at most MOST_FOUND products, best first; ties are in the catalogue's order."""
        if len(keywords) > LONG:
            return self._search(keywords)
        hits = self._found.get(keywords)
        if hits is None:
            if len(self._found) > 20_000:
                self._found.clear()
            hits = self._found[keywords] = self._search(keywords)
        return hits

    def _search(self, keywords: str) -> tuple[str, ...]:
        index, vocabulary = self._index
        ids = [vocabulary[term] for term in terms(keywords) if term in vocabulary]
        if not ids:
            return ()
        scores = index.get_scores_from_ids(ids)  # [products]
        count = min(MOST_FOUND, len(scores))
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        near = np.flatnonzero(scores >= max(least, 1e-9))
        best = near[np.argsort(-scores[near], kind="stable")][:count]
        return tuple(self.products[int(number)].asin.lower() for number in best)

    @cached_property
    def _index(self) -> tuple[Any, dict[str, int]]:
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in terms(p.text)] for p in self.products]
        if not vocabulary:
            return None, {}
        import bm25s  # pyright: ignore[reportMissingTypeStubs]  # no types; late: it loads scipy

        index = cast("Any", bm25s.BM25)(method="lucene", k1=K1, b=B, backend="numpy")
        index.index((ids, dict(vocabulary)), show_progress=False)  # a copy, because it adds an empty word to its argument
        return index, vocabulary


def terms(text: str) -> list[str]:
    """Return a text's words as Lucene's English analyzer does: lower-case, stemmed, no possessives or stop words."""
    words = (_bare(word) for word in _WORD.findall(text.lower()))
    return [_stem(word) if len(word) <= LONG_WORD else word for word in words if word and word not in STOP]


def _bare(word: str) -> str:
    return re.sub(r"['’]s$", "", word)


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word))
