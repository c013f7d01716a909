"""Open a retriever by name: `tantivy:FOLDER`, `dense:FOLDER:ENCODER`, `http://HOST:PORT`."""

import multiprocessing
from functools import lru_cache
from pathlib import Path

from agentgym.errors import BadConfig
from agentgym.retrieval.folder import MANIFEST
from agentgym.retrieval.protocol import Retriever
from agentgym.tasks.lines import stamp

IN_MEMORY = "bm25s"
"""Name of the retriever in memory; `open_retriever` refuses it, because its caller must create a `Corpus`."""
SPELLINGS = f"{IN_MEMORY!r}, 'tantivy:FOLDER', 'dense:FOLDER:ENCODER' or 'http://HOST:PORT'"


def open_retriever(name: str, corpus: str | None = None) -> Retriever:
    """Return the named retriever, opened once per process; with `corpus`, require an index of that file.

    Raises:
        BadConfig: the name is unknown, the index is missing or of another corpus, `corpus` is given for an address, or no
            retriever answers there (worker processes do not check this).
        BadData: the index is damaged.
        MissingExtra: a library is not installed.
    """
    kind, _, place = name.partition(":")
    if kind in ("http", "https"):
        if corpus is not None:
            raise BadConfig(f"retriever {name!r} has its own documents: leave corpus out")
        return _client(name)
    if kind not in ("tantivy", "dense") or not place:
        raise BadConfig(f"retriever is {name!r}; expected {SPELLINGS}")
    folder, _, encoder = place.partition(":") if kind == "dense" else (place, "", "")
    manifest = Path(folder).expanduser() / MANIFEST
    changed = stamp(str(manifest)) if manifest.is_file() else None  # a rebuilt index is opened again
    return _index(kind, str(Path(folder).expanduser()), str(Path(encoder).expanduser()) if encoder else "", corpus, changed)


@lru_cache(maxsize=8)
def _index(kind: str, folder: str, encoder: str, corpus: str | None, _changed: object) -> Retriever:
    if kind == "tantivy":
        from agentgym.retrieval.disk import DiskIndex

        return DiskIndex(folder, corpus)
    from agentgym.retrieval.dense import DenseIndex

    return DenseIndex(folder, corpus, encoder=encoder)


@lru_cache(maxsize=8)
def _client(url: str) -> Retriever:
    from agentgym.retrieval.client import Client

    client = Client(url)
    if multiprocessing.parent_process() is None:  # a worker's parent has checked; later failures are episodes' faults
        client.check()
    return client
