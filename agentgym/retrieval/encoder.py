"""Text encoder for dense retrieval: any sentence-transformers model in a folder."""

import hashlib
import importlib
import json
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import BadConfig, BadData, MissingExtra, how_to_install

Vectors = NDArray[np.float32]
"""Unit vectors of texts, [texts, dimensions]."""


class Encoder:
    """Encodes queries and passages, each with its prefix, as unit vectors; their inner product is the cosine.

    Queries are encoded one by one: sums over a batch round differently, so the last digits of a query's vector would depend
    on the other queries.
    """

    def __init__(self, folder: str, *, query_prefix: str = "", passage_prefix: str = "", device: str = "cpu") -> None:
        if not (Path(folder) / "config.json").is_file() and not (Path(folder) / "modules.json").is_file():
            raise BadConfig(f"no encoder at {folder!r}: expected the folder of a sentence-transformers model")
        _check_modules(Path(folder))
        try:
            library = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtra(f"finding by meaning needs sentence-transformers: {how_to_install('dense')}") from error
        with _no_bars():
            self._model = library.SentenceTransformer(folder, device=device, local_files_only=True, trust_remote_code=False)
        self._prefixes = (query_prefix, passage_prefix)
        self._lock = threading.Lock()
        self.dimension = int(self.queries(["one"]).shape[1])

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of queries, float32 [queries, dimensions]."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        return np.concatenate([self._encode([self._prefixes[0] + text], 1) for text in texts])

    def passages(self, texts: Sequence[str], batch: int = 64) -> Vectors:
        """Return the unit vectors of passages, float32 [passages, dimensions], encoded `batch` at a time."""
        return self._encode([self._prefixes[1] + text for text in texts], batch)

    def _encode(self, texts: list[str], batch: int) -> Vectors:
        with self._lock:
            vectors = self._model.encode(texts, batch_size=batch, show_progress_bar=False, convert_to_numpy=True)
        exact: NDArray[np.float64] = np.asarray(vectors, np.float64)
        lengths = np.maximum(np.sqrt((exact * exact).sum(axis=1, keepdims=True)), 1e-12)
        return (exact / lengths).astype(np.float32)


def _check_modules(folder: Path) -> None:
    """Refuse an encoder whose `modules.json` names classes outside sentence-transformers; releases before 6.0 import these.

    Raises:
        BadData: `modules.json` is malformed or names such a class.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return
    try:
        names = [str(row["type"]) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadData(f"{path}: {error!r}; expected a list of modules") from error
    for name in names:
        if not name.startswith("sentence_transformers."):
            raise BadData(f"{path}: the module {name!r} is no class of sentence-transformers, and its code is not run")


@contextmanager
def _no_bars() -> Generator[None]:
    """Turn off transformers' progress bars, which would garble other output on the screen."""
    logging = importlib.import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def fingerprint(folder: str) -> str:
    """Return the hash of an encoder's files; vectors of different encoders are not comparable."""
    digest = hashlib.blake2b(digest_size=16)
    for path in _files(Path(folder)):
        digest.update(f"{path.relative_to(folder).as_posix()}\x1f".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def _files(folder: Path) -> Iterable[Path]:
    kinds = (".json", ".safetensors", ".bin", ".txt", ".model")
    return sorted(path for path in folder.rglob("*") if path.suffix in kinds and path.is_file())
