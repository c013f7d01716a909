"""Dense retrieval: faiss against plain arithmetic, batches of any make-up, and builds that go on where they were cut off."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faiss", reason="needs the extra `dense`")
pytest.importorskip("sentence_transformers", reason="needs the extra `dense`")

from retrievers import ids, make_encoder, world_documents, write_corpus

from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.retrieval import Document
from agentgym.retrieval.dense import SEARCHES, DenseIndex, build_dense_index
from agentgym.retrieval.encoder import Encoder
from agentgym.retrieval.opening import open_retriever

PREFIXES = {"query_prefix": "query: ", "passage_prefix": "passage: "}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, in which three documents are the same, and an encoder that knows its words."""
    folder = tmp_path_factory.mktemp("dense")
    documents = world_documents(1)
    documents = [*documents, *(Document(f"copy{i}", documents[5].title, documents[5].text) for i in range(2))]
    write_corpus(folder / "c.jsonl", documents)
    make_encoder(folder, [document.contents for document in documents] + ["query: passage:"])
    return folder


@pytest.fixture(scope="module")
def flat(place: Path) -> DenseIndex:
    return build_dense_index(str(place / "c.jsonl"), place / "flat", str(place / "encoder"), **PREFIXES)


def queries(count: int = 24) -> list[str]:  # above 19, faiss sums in another way
    return [document.text[: 20 + 7 * i] for i, document in enumerate(world_documents(1)[:count])]


def test_flat_is_the_cosine_of_every_document(place: Path, flat: DenseIndex) -> None:
    encoder = Encoder(str(place / "encoder"), **PREFIXES)
    documents = [json.loads(line) for line in (place / "c.jsonl").read_text().splitlines()]
    passages = encoder.passages([document["contents"] for document in documents]).astype(np.float64)
    for query, hits in zip(queries(), flat.search(queries(), 5), strict=True):
        cosines = passages @ encoder.queries([query])[0].astype(np.float64)
        best = np.argsort(-cosines, kind="stable")[:5]
        assert [hit.score for hit in hits] == pytest.approx(list(cosines[best]), abs=1e-6)
        assert [hit.document.id for hit in hits] == [documents[n]["id"] for n in best]
        assert np.linalg.norm(passages, axis=1) == pytest.approx(1)


def test_the_prefixes_are_those_of_queries_and_passages(place: Path) -> None:
    plain, prefixed = Encoder(str(place / "encoder")), Encoder(str(place / "encoder"), **PREFIXES)
    assert np.allclose(prefixed.queries(["red"]), plain.queries(["query: red"]))
    assert np.allclose(prefixed.passages(["red"]), plain.passages(["passage: red"]))
    assert not np.allclose(prefixed.queries(["red"]), prefixed.passages(["red"]))


@pytest.mark.long
@pytest.mark.parametrize("search", SEARCHES)
def test_a_batch_finds_what_each_query_finds_alone_to_the_last_digit(place: Path, search: str) -> None:
    made = build_dense_index(str(place / "c.jsonl"), place / search, str(place / "encoder"), search=search, **PREFIXES)
    index = DenseIndex(place / search, encoder=str(place / "encoder"))
    alone = [index.search([query], 4)[0] for query in queries()]
    assert index.search(queries(), 4) == alone == made.search(queries(), 4)
    assert index.search(queries()[::-1] * 2, 4) == alone[::-1] * 2
    assert index.search([], 4) == [] and len(index.search(["red"], 1000)[0]) <= index.size


def test_equal_documents_stand_in_the_order_of_the_corpus(flat: DenseIndex) -> None:
    copied = world_documents(1)[5]
    found = [id for id in ids(flat, copied.contents, 400) if id in ("5", "copy0", "copy1")]
    assert found == ["5", "copy0", "copy1"]


def test_many_equal_documents_are_taken_in_order(place: Path, tmp_path: Path) -> None:
    same = [Document(str(i), "T", "town festival") for i in range(200)]
    corpus = write_corpus(tmp_path / "c.jsonl", same)
    index = build_dense_index(corpus, tmp_path / "index", str(place / "encoder"))
    assert ids(index, "town", 7) == [str(i) for i in range(7)]
    assert [ids(index, query, 3) for query in ["town"] * 30] == [["0", "1", "2"]] * 30


def test_the_best_of_ten_thousand_nearly_equal_documents_is_found(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last document is best by 1e-8, which faiss's single precision does not see.
    count = 10_000
    vectors = np.zeros((count, Encoder(str(place / "encoder")).dimension), np.float32)
    vectors[:, 0], vectors[:, 1] = 1, np.linspace(0, 1e-5, count)
    query = np.eye(1, vectors.shape[1], dtype=np.float32) + 1e-3 * np.eye(1, vectors.shape[1], 1, dtype=np.float32)
    rest = iter(vectors)
    monkeypatch.setattr(Encoder, "passages", lambda self, texts, batch=64: np.array([next(rest) for _ in texts]))
    monkeypatch.setattr(Encoder, "queries", lambda self, texts, batch=64: np.repeat(query, len(texts), axis=0))
    corpus = write_corpus(tmp_path / "c.jsonl", [Document(str(i), "T", "town") for i in range(count)])
    index = build_dense_index(corpus, tmp_path / "index", str(place / "encoder"))
    assert ids(index, "town", 3) == ["9999", "9998", "9997"]


def test_a_cut_off_build_encodes_the_rest_only(
    place: Path, flat: DenseIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentgym.retrieval import dense

    monkeypatch.setattr(dense, "_CHUNK", 100)
    corpus, done = str(place / "c.jsonl"), list[int]()

    def stop(what: str, count: int, total: int | None) -> None:
        done.append(count)
        if len(done) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_dense_index(corpus, tmp_path / "index", str(place / "encoder"), progress=stop, **PREFIXES)
    with (tmp_path / "index.partial" / "vectors.f32").open("ab") as file:
        file.write(b"half a vector")
    index = build_dense_index(corpus, tmp_path / "index", str(place / "encoder"), progress=stop, **PREFIXES)
    assert done == [100, 152]
    assert (tmp_path / "index" / "vectors.f32").stat().st_size == 4 * 32 * 152
    for one, other in zip(index.search(queries(5), 5), flat.search(queries(5), 5), strict=True):
        assert [hit.document for hit in one] == [hit.document for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)


def test_an_index_does_not_choose_its_encoder(place: Path, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", world_documents(0)[:30])
    build_dense_index(corpus, tmp_path / "index", str(place / "encoder"))
    for make in (lambda: DenseIndex(tmp_path / "index"), lambda: open_retriever(f"dense:{tmp_path / 'index'}")):
        with pytest.raises(BadConfig, match=r"no file chooses what is loaded: .* 'dense:.*index:FOLDER' or --encoder"):
            make()


def test_an_encoder_that_moved_or_is_another(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "encoder", tmp_path / "encoder")
    corpus = write_corpus(tmp_path / "c.jsonl", world_documents(0)[:30])
    build_dense_index(corpus, tmp_path / "index", str(tmp_path / "encoder"))
    found = ids(open_retriever(f"dense:{tmp_path / 'index'}:{tmp_path / 'encoder'}"), "town", 3)
    (tmp_path / "encoder").rename(tmp_path / "moved")
    with pytest.raises(BadConfig, match=r"no encoder at '.*encoder'"):
        DenseIndex(tmp_path / "index", encoder=str(tmp_path / "encoder"))
    assert ids(DenseIndex(tmp_path / "index", encoder=str(tmp_path / "moved")), "town", 3) == found
    other = make_encoder(tmp_path / "other", ["town"], seed=1)
    with pytest.raises(BadConfig, match="made with another encoder"):
        DenseIndex(tmp_path / "index", encoder=other)
    with pytest.raises(BadConfig, match="was made with"):
        build_dense_index(corpus, tmp_path / "index", str(tmp_path / "moved"), query_prefix="query: ")
    with pytest.raises(UnknownName, match=r"no search of a dense index 'flatt'\. Did you mean 'flat'"):
        build_dense_index(corpus, tmp_path / "index2", str(tmp_path / "moved"), search="flatt")
    vectors = tmp_path / "index" / "vectors.f32"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with pytest.raises(BadData, match="make the index again"):
        DenseIndex(tmp_path / "index", encoder=str(tmp_path / "moved"))
