"""BM25 retrieval from disk: tantivy's index, memory-mapped and shared by all processes.

tantivy stores a document's length in one byte, so it scores long documents slightly too high. It therefore only finds
candidates; their BM25 scores are computed from their words. Since rounding never lowers a score in tantivy, the best
documents are final as soon as tantivy's score of the last candidate is below the score of the last document selected.
"""

import importlib
import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from agentgym.errors import BadData, MissingExtra, how_to_install
from agentgym.retrieval import folder as folders
from agentgym.retrieval.documents import Document, query_words, searched, searched_parts
from agentgym.retrieval.protocol import K1, LONGEST, B, Hit
from agentgym.retrieval.store import Store

KIND = "tantivy"
FIELDS: Mapping[str, Callable[[Document], list[str]]] = {"words": searched, "parts": searched_parts}
"""Fields of the index, each with the function that returns a document's tokens."""
_FIRST, _MOST = 16, 1024  # extra candidates: the first try, and the limit, whose result is final
_HEAP = 256 << 20  # bytes of memory for building the index
_STEP = 10_000  # documents between two progress reports


def build_disk_index(corpus: str, folder: str | Path, progress: folders.Progress = folders.silent) -> "DiskIndex":
    """Build the index of a corpus in a folder, or reuse an existing one, and open it; `folder.build` lists the errors."""
    tantivy = _tantivy()

    def fill(partial: Path, store: Store, done: Callable[[int], None]) -> dict[str, object]:
        return _fill(tantivy, partial / KIND, store, done)

    folders.build(KIND, corpus, folder, fill, {}, progress)
    return DiskIndex(folder)


class DiskIndex:
    """A BM25 index in a folder, with Lucene's parameters, over the words of title and text.

    A search considers `count + 16` candidates, or up to `count + 1024` if scores are close.
    """

    blocking = False

    def __init__(self, folder: str | Path, corpus: str | None = None) -> None:
        """Open the index in a folder; with `corpus`, require that it was built from that file.

        Raises:
            BadData: tantivy cannot read the index, or it has a different number of documents than the manifest.
        """
        tantivy = _tantivy()
        path = Path(folder)
        manifest = folders.read_manifest(path, KIND)
        if corpus is not None:
            folders.check_corpus(manifest, path, corpus)
        self._store = folders.open_store(path, manifest)
        self.size, self.find, self.titled, self.unique = (
            self._store.size,
            self._store.find,
            self._store.titled,
            self._store.unique,
        )
        self._means = {name: manifest[name] / self.size for name in FIELDS}
        try:
            index = tantivy.Index.open(str(path / KIND))
            self._schema, self._searcher = index.schema, index.searcher()
        except (ValueError, OSError) as error:
            raise BadData(f"{path / KIND}: {error}; make the index again") from error
        if self._searcher.num_docs != self.size:
            raise BadData(f"{path / KIND} holds {self._searcher.num_docs} documents, not {self.size}; make the index again")
        self._query, self._should = tantivy.Query, tantivy.Occur.Should

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return, for each query, the best `count` documents that contain at least one of its words."""
        return [self._search(query, count) for query in queries]

    def close(self) -> None:
        """Do nothing: a disk index has no connections to close."""

    def _search(self, query: str, count: int) -> list[Hit]:
        fields = dict(zip(FIELDS, map(Counter, query_words(query[:LONGEST])), strict=True))
        weights = {name: self._weights(name, tokens) for name, tokens in fields.items() if self._means[name]}
        clauses = [
            (self._should, self._clause(name, token, fields[name][token])) for name in weights for token in weights[name]
        ]
        if not clauses or count < 1:
            return []
        compiled, scored, seen, beyond = self._query.boolean_query(clauses), list[tuple[float, int, Document]](), 0, _FIRST
        while True:
            hits = self._searcher.search(compiled, limit=min(count + beyond, self.size), count=False).hits
            numbers = self._searcher.fast_field_values("number", [address for _, address in hits[seen:]])
            documents = self._store.many(numbers)
            scored += [(self._score(weights, d), n, d) for n, d in zip(numbers, documents, strict=True)]
            scored.sort(key=lambda entry: (-entry[0], entry[1]))
            if (
                len(hits) < count + beyond
                or beyond >= _MOST
                or hits[-1][0] * (1 + 1e-5) < self._boosted(scored[count - 1][0])
            ):
                return [Hit(document, score) for score, _, document in scored[:count]]
            seen, beyond = len(hits), beyond * 4

    def _boosted(self, score: float) -> float:
        """Return a score on tantivy's scale, which is larger by the factor K1 + 1."""
        return score * (K1 + 1)

    def _clause(self, name: str, token: str, times: int) -> object:
        clause = self._query.term_query(self._schema, name, token, index_option="freq")
        return clause if times == 1 else self._query.boost_query(clause, float(times))

    def _weights(self, name: str, tokens: Counter[str]) -> dict[str, float]:
        """Return the weight of each indexed query token: its inverse document frequency (Lucene's) times its count."""
        weights: dict[str, float] = {}
        for token, times in tokens.items():
            holding = self._searcher.doc_freq(name, token)
            if holding:
                weights[token] = math.log(1 + (self.size - holding + 0.5) / (holding + 0.5)) * times
        return weights

    def _score(self, weights: dict[str, dict[str, float]], document: Document) -> float:
        score = 0.0
        for name, of_field in weights.items():
            if of_field:
                tokens = FIELDS[name](document)
                counts = Counter(token for token in tokens if token in of_field)
                least = K1 * (1 - B + B * len(tokens) / self._means[name])
                score += sum(of_field[token] * counts[token] / (counts[token] + least) for token in of_field)
        return score


def _fill(tantivy: ModuleType, folder: Path, store: Store, done: Callable[[int], None]) -> dict[str, object]:
    """Write the index of the documents to a folder, replacing what an interrupted build left; return manifest entries.

    `done` receives the number of documents so far.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    schema = (
        tantivy.SchemaBuilder()
        .add_integer_field("number", fast=True)
        .add_text_field("words", tokenizer_name="whitespace", index_option="freq")
        .add_text_field("parts", tokenizer_name="whitespace", index_option="freq")
        .build()
    )
    writer = tantivy.Index(schema, path=str(folder)).writer(heap_size=_HEAP, num_threads=1)
    totals = dict.fromkeys(FIELDS, 0)
    for number, document in enumerate(store):
        tokens = {name: of_document(document) for name, of_document in FIELDS.items()}
        totals = {name: total + len(tokens[name]) for name, total in totals.items()}
        writer.add_document(tantivy.Document(number=number, **{name: " ".join(found) for name, found in tokens.items()}))
        if number % _STEP == _STEP - 1:
            done(number + 1)
    writer.commit()
    writer.wait_merging_threads()
    done(store.size)
    return {**totals, "k1": K1, "b": B}


def _tantivy() -> ModuleType:
    try:
        return importlib.import_module("tantivy")
    except ImportError as error:
        raise MissingExtra(f"an index on disk needs tantivy: {how_to_install('search-disk')}") from error
