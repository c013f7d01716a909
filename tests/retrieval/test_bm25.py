"""BM25 in memory and on disk: numbers computed by hand, the same ranks from both, ties, and queries meant to harm."""

import math
from pathlib import Path

import numpy as np
import pytest
from retrievers import DOCUMENTS, ids, world_documents, write_corpus

from agentgym.retrieval import Document, Retriever
from agentgym.retrieval.disk import DiskIndex, build_disk_index
from agentgym.retrieval.documents import searched
from agentgym.retrieval.memory import Corpus

IDF_RED, IDF_SEA = math.log(1 + 1.5 / 3.5), math.log(2)  # in 3 and in 2 of 4 documents: log(1 + (4 - n + 0.5) / (n + 0.5))
RED = {
    "a": IDF_RED * 2 / (2 + 0.975),
    "b": IDF_RED * 1 / (1 + 1.2),
    "c": IDF_RED * 1 / (1 + 1.65),
}  # 1.2 (0.25 + 0.75 l / 4)
SEA = {"b": IDF_SEA * 1 / (1 + 1.2), "c": IDF_SEA * 3 / (3 + 1.65)}


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Retriever]:
    folder = tmp_path_factory.mktemp("toys")
    corpus = write_corpus(folder / "corpus.jsonl", DOCUMENTS)
    return {"bm25s": Corpus(DOCUMENTS), "tantivy": build_disk_index(corpus, folder / "index")}


@pytest.mark.parametrize("kind", ["bm25s", "tantivy"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("red", RED),
        ("SEA!", SEA),
        ("sea sea", {id: 2 * score for id, score in SEA.items()}),
        ("red sea", {"a": RED["a"], "b": RED["b"] + SEA["b"], "c": RED["c"] + SEA["c"]}),
        ("stone nowhere", {"d": math.log(1 + 3.5 / 1.5) / (1 + 0.975)}),
        ("nowhere", {}),
        ("", {}),
        ("?!", {}),
    ],
)
def test_scores_are_those_computed_by_hand(
    toys: dict[str, Retriever], kind: str, query: str, expected: dict[str, float]
) -> None:
    [hits] = toys[kind].search([query], 10)
    assert [hit.document.id for hit in hits] == sorted(expected, key=lambda id: -expected[id])
    assert [hit.score for hit in hits] == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-5)


def test_both_rank_a_world_alike(tmp_path: Path) -> None:
    documents = world_documents()
    disk = build_disk_index(write_corpus(tmp_path / "c.jsonl", documents), tmp_path / "index")
    queries = [document.title for document in documents] + [document.text[:150] for document in documents]
    for one, other in zip(Corpus(documents).search(queries, 10), disk.search(queries, 10), strict=True):
        assert [hit.document for hit in one] == [hit.document for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], rel=1e-4)


def test_long_documents_of_nearly_one_length_are_ranked_exactly(tmp_path: Path) -> None:
    """tantivy alone knows their lengths to an eighth only, and would give all of them one score."""
    rng = np.random.default_rng(0)
    documents = [
        Document(str(i), f"t{i}", " ".join(["red", *(f"w{n}" for n in rng.integers(5000, size=int(length)))]))
        for i, length in enumerate(rng.integers(100, 160, size=3000))
    ]
    disk = build_disk_index(write_corpus(tmp_path / "c.jsonl", documents), tmp_path / "index")
    lengths = [len(searched(document)) for document in documents]
    expected = [str(i) for i in sorted(range(3000), key=lambda i: (lengths[i], i))]
    assert ids(disk, "red", 20) == expected[:20] == ids(Corpus(documents), "red", 20)


@pytest.mark.parametrize("kind", ["bm25s", "tantivy"])
def test_equal_documents_stand_in_the_order_of_the_corpus(tmp_path: Path, kind: str) -> None:
    documents = [Document(str(99 - i), f"same {i % 2}", "red sea") for i in range(90)]
    corpus = write_corpus(tmp_path / "c.jsonl", documents)
    retriever = Corpus(documents) if kind == "bm25s" else build_disk_index(corpus, tmp_path / "index")
    for count in (1, 7, 50):
        assert ids(retriever, "red sea", count) == [document.id for document in documents[:count]]


HOSTILE = [
    '"a" AND (',
    "red OR -sea",
    "title:red",
    "red*",
    "/r.d/",
    "red^9",
    "red~2",
    "\x00",
    "\U0001f600",
    "é̂ ſ İ",
    "' OR 1=1 --",
]


@pytest.mark.parametrize("query", [*HOSTILE, "red " * 25_000, " ".join(f"w{i}" for i in range(20_000))])
def test_a_query_is_words_and_nothing_else(toys: dict[str, Retriever], query: str) -> None:
    assert ids(toys["tantivy"], query, 5) == ids(toys["bm25s"], query, 5)


def test_what_a_query_finds_does_not_depend_on_its_neighbours(toys: dict[str, Retriever]) -> None:
    queries = ["red", "sea", "boat red", "nowhere"]
    for retriever in toys.values():
        alone = [retriever.search([query], 3)[0] for query in queries]
        assert retriever.search(queries, 3) == alone
        assert retriever.search(queries[::-1], 3) == alone[::-1]
        assert retriever.search([], 3) == []


def test_documents_by_title_and_id_on_disk(tmp_path: Path) -> None:
    documents = [Document("a", "Same", "one"), Document("b", 'same "so" ', "two\nlines"), Document("c", "SAME", "x", False)]
    corpus = write_corpus(tmp_path / "c.jsonl", documents)
    disk = build_disk_index(corpus, tmp_path / "index")
    memory = Corpus(documents)
    for retriever in (disk, memory):
        assert retriever.size == 3 and retriever.titled('"same"') == [documents[0], documents[2]]
        assert retriever.titled("b") == [] and retriever.find("b") == documents[1] and retriever.find("x") is None
        assert (
            retriever.titled("\ud83d") == [] and retriever.find("\ud83d") is None and ids(retriever, "\ud83d x", 1) == ["c"]
        )
        assert [retriever.unique(document) for document in documents] == [False, True, False]
    assert [document.contents for document in documents] == ['"Same"\none', '"same "so" "\ntwo\nlines', "SAME\nx"]
    assert DiskIndex(tmp_path / "index", corpus).find("c") == documents[2]
