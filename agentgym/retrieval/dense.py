"""Dense retrieval from disk: vectors in one memory-mapped file shared by all processes, searched by faiss."""

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import BadConfig, BadData, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.retrieval import folder as folders
from agentgym.retrieval.encoder import Encoder, Vectors, fingerprint
from agentgym.retrieval.protocol import LONGEST, Hit
from agentgym.retrieval.store import Store

KIND = "dense"
SEARCHES = ("flat", "ivf", "hnsw")
"""Index types: exhaustive (flat), nearest clusters (IVF), graph (HNSW)."""
_VECTORS, _FAISS = "vectors.f32", "index.faiss"
_CHUNK = 2048  # passages between two writes, the most an interrupted build loses; also vectors compared at once
_NEIGHBOURS, _BREADTH = 32, 128  # HNSW: edges per vector, and search breadth
_PROBED = 16  # IVF: clusters searched
_BEYOND = 32  # extra candidates, so that faiss's rounding does not change the result
_BATCH = 4  # number of queries from which a joint comparison is faster
_CLOSE = 1e-5  # scores closer than this may differ by rounding alone


def build_dense_index(
    corpus: str,
    folder: str | Path,
    encoder: str,
    *,
    query_prefix: str = "",
    passage_prefix: str = "",
    search: str = "flat",
    device: str = "cpu",
    batch: int = 64,
    progress: folders.Progress = folders.silent,
) -> "DenseIndex":
    """Build the index of a corpus in a folder, or reuse an existing index of it, and open the index.

    An interrupted build resumes after the last encoded passages.

    Raises:
        UnknownName: `search` is not in SEARCHES. See `folder.build` for further errors.
    """
    if search not in SEARCHES:
        raise UnknownName(no_such("search of a dense index", search, SEARCHES))
    faiss, model = _faiss(), Encoder(encoder, query_prefix=query_prefix, passage_prefix=passage_prefix, device=device)
    options = {
        "encoder": fingerprint(encoder),
        "dimension": model.dimension,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
        "search": search,
    }

    def fill(partial: Path, store: Store, done: Callable[[int], None]) -> dict[str, object]:
        _encode(model, partial / _VECTORS, store, batch, done)
        if search != "flat":
            _index(faiss, search, _mapped(partial / _VECTORS, store.size, model.dimension), partial / _FAISS)
        return {"encoder": str(Path(encoder).resolve())}

    folders.build(KIND, corpus, folder, fill, options, progress)
    return DenseIndex(folder, encoder=model)


class DenseIndex:
    """A dense index in a folder; a search returns the documents whose vectors have the largest cosine with the query's.

    `encoder` is the encoder or its folder, and is required. The index also records the encoder's original path, but an
    index may come from a stranger, so that path is never loaded. faiss finds candidates. Their scores are then computed in
    double precision, one by one, so that scores do not depend on the batch size or the number of threads. A `flat` search
    is exact; `ivf` and `hnsw` may miss documents, always the same ones.
    """

    blocking = False

    def __init__(
        self, folder: str | Path, corpus: str | None = None, *, encoder: str | Encoder = "", device: str = "cpu"
    ) -> None:
        """Open the index in a folder; with `corpus`, require that it was built from that file."""
        path = Path(folder)
        manifest = folders.read_manifest(path, KIND)
        if corpus is not None:
            folders.check_corpus(manifest, path, corpus)
        options = manifest["options"]
        self._encoder = encoder if isinstance(encoder, Encoder) else _encoder(manifest, encoder, path, device)
        self._faiss = _faiss()
        self._store = folders.open_store(path, manifest)
        self.size, self.find, self.titled, self.unique = (
            self._store.size,
            self._store.find,
            self._store.titled,
            self._store.unique,
        )
        self._vectors = _mapped(path / _VECTORS, self.size, options["dimension"])
        self._index: Any = None if options["search"] == "flat" else _read(self._faiss, path / _FAISS, self.size)
        self._lock = threading.Lock()
        # Process-wide threshold of query numbers above which faiss uses matrix multiplication. Its default is
        # 128,000, i.e. 500 queries of 256. It affects speed only: scores are recomputed.
        self._faiss.cvar.distance_compute_blas_threshold = _BATCH * options["dimension"]

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return, for each query, the best `count` documents."""
        vectors = self._encoder.queries([query[:LONGEST] for query in queries])
        return [
            self._ranked(vector, numbers, count) for vector, numbers in zip(vectors, self._near(vectors, count), strict=True)
        ]

    def close(self) -> None:
        """Do nothing: a dense index has no connections to close."""

    def _near(self, vectors: Vectors, count: int) -> list[NDArray[np.int64]]:
        """Return, for each query, the numbers of the candidates for its best `count` documents, int64 [candidates].

        -1 is padding. A `flat` index returns all documents that may be among the best.

        `vectors` is float32 [queries, dimensions].
        """
        if not len(vectors):
            return []
        limit = min(count + _BEYOND, self.size)
        if self._index is not None:  # one by one: in a batch, cluster distances are summed with different rounding
            with self._lock:
                return [self._index.search(vector[None], limit)[1][0] for vector in vectors]
        metric = self._faiss.METRIC_INNER_PRODUCT
        scores, numbers = self._faiss.knn(vectors, self._vectors, limit, metric)
        nearest = list(numbers)
        for row in range(len(vectors)):  # widen while many documents tie with the last one wanted
            size = limit
            while size < self.size and scores[row][-1] > scores[row][min(count, size) - 1] - _CLOSE:
                size = min(size * 4, self.size)
                again, more = self._faiss.knn(vectors[row : row + 1], self._vectors, size, metric)
                nearest[row] = more[0]
                if again[0][-1] <= again[0][count - 1] - _CLOSE:
                    break
        return nearest

    def _ranked(self, vector: Vectors, numbers: NDArray[np.int64], count: int) -> list[Hit]:
        numbers = np.unique(numbers[numbers >= 0])  # faiss pads with -1
        scores, exact = np.empty(len(numbers)), vector.astype(np.float64)
        for start in range(0, len(numbers), _CHUNK):  # many documents may tie
            part = slice(start, start + _CHUNK)
            scores[part] = (self._vectors[numbers[part]].astype(np.float64) * exact).sum(axis=1)
        order = np.lexsort((numbers, -scores))[:count]
        documents = self._store.many([int(number) for number in numbers[order]])
        return [Hit(document, float(scores[i])) for document, i in zip(documents, order, strict=True)]


def _encode(model: Encoder, path: Path, store: Store, batch: int, done: Callable[[int], None]) -> None:
    """Append to the file the vectors of all documents that it does not contain yet; `done` receives their number so far."""
    width = 4 * model.dimension
    have = path.stat().st_size // width if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(have * width)  # drop a partially written vector
        documents = store.from_number(have)
        while chunk := list(islice(documents, _CHUNK)):
            file.write(model.passages([document.contents for document in chunk], batch).tobytes())
            file.flush()
            os.fsync(file.fileno())
            have += len(chunk)
            done(have)


def _index(faiss: ModuleType, search: str, vectors: Vectors, path: Path) -> None:
    """Write faiss's index of the vectors, float32 [documents, dimensions], to a file; `search` is `ivf` or `hnsw`."""
    count, dimension = vectors.shape
    if search == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efSearch = _BREADTH
    else:
        clusters = max(1, min(int(4 * count**0.5), count // 39))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, clusters, faiss.METRIC_INNER_PRODUCT)
        sample = np.random.default_rng(0).permutation(count)[: 64 * clusters]
        index.train(np.ascontiguousarray(vectors[np.sort(sample)]))
    for start in range(0, count, _CHUNK):
        index.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))
    faiss.write_index(index, str(path))


def _read(faiss: ModuleType, path: Path, size: int) -> Any:
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        raise BadData(f"{path}: {str(error)[:200]}; make the index again") from error
    if index.ntotal != size:
        raise BadData(f"{path} holds {index.ntotal} vectors, not {size}; make the index again")
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.nprobe = _PROBED
    return index


def _mapped(path: Path, count: int, dimension: int) -> Vectors:
    size = path.stat().st_size if path.exists() else 0
    if size != 4 * count * dimension:
        raise BadData(f"{path} has {size} bytes, not {4 * count * dimension}; make the index again")
    return np.memmap(path, np.float32, "r", shape=(count, dimension))


def _encoder(manifest: dict[str, Any], folder: str, path: Path, device: str) -> Encoder:
    """Return the encoder of an index.

    Raises:
        BadConfig: no encoder was given, its folder does not exist, or the index was built with another encoder.
    """
    options = manifest["options"]
    if not folder:
        raise BadConfig(
            f"{path} says that its encoder was at {manifest['encoder']!r}, and no file chooses what is loaded: give the "
            f"encoder's folder, as retriever 'dense:{path}:FOLDER' or --encoder FOLDER"
        )
    if not Path(folder).is_dir():
        raise BadConfig(f"no encoder at {folder!r}: expected the folder of the one that {path} was made with")
    if fingerprint(folder) != options["encoder"]:
        raise BadConfig(f"{path} was made with another encoder than that at {folder!r}: vectors of two are not comparable")
    prefixes = {name: options[name] for name in ("query_prefix", "passage_prefix")}
    return Encoder(folder, **prefixes, device=device)


def _faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise MissingExtra(f"finding by meaning needs faiss: {how_to_install('dense')}") from error
