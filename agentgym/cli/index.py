"""Build an index of documents once; all environments and servers can then share it.

agentgym index wiki-18.jsonl.gz runs/wiki                 by words (tantivy)
agentgym index wiki-18.jsonl runs/e5 --kind dense --encoder e5-base-v2 --query-prefix "query: " --passage-prefix "passage: "
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.options import Positional

if TYPE_CHECKING:
    from agentgym.retrieval.dense import DenseIndex
    from agentgym.retrieval.disk import DiskIndex

_EVERY = 2.0  # seconds between progress lines


@dataclass(frozen=True)
class Config:
    """Options of `agentgym index`."""

    corpus: Positional[str]
    """Documents in JSON lines, {"id", "contents"} or {"id", "title", "text"}; also .gz."""
    folder: Positional[str]
    """Folder of the index; an interrupted build is continued, and a finished one of the same corpus is left unchanged."""
    kind: str = "tantivy"
    """`tantivy` (by words, BM25) or `dense` (by meaning, needs --encoder)."""
    encoder: str = ""
    """Folder of a sentence-transformers model."""
    query_prefix: str = ""
    """Prefix that the encoder expects before a query; for E5 "query: "."""
    passage_prefix: str = ""
    """Prefix that the encoder expects before a passage; for E5 "passage: "."""
    search: str = "flat"
    """Type of a dense index: `flat` (exact), `ivf` or `hnsw` (faster, approximate)."""
    device: str = "cpu"
    """Device that encodes a dense index: cpu or cuda."""


def run(config: Config) -> int:
    """Build the index, and print its number of documents."""
    console = Console(highlight=False)
    retriever = make(config, console)
    name = f"{config.kind}:{config.folder}" + (f":{config.encoder}" if config.kind == "dense" else "")
    console.print(f"{name} has {retriever.size} documents", markup=False, soft_wrap=True)
    retriever.close()
    return 0


def make(config: Config, console: Console) -> "DiskIndex | DenseIndex":
    """Return the retriever of the folder, building the index if it does not exist.

    Raises:
        BadConfig: the corpus or encoder is missing.
        UnknownName: the kind is unknown.
    """
    if not config.corpus:
        raise BadConfig(f"there is no index at {config.folder}: say what to make it from, --corpus FILE")
    progress = _progress(console)
    if config.kind == "tantivy":
        from agentgym.retrieval.disk import build_disk_index

        return build_disk_index(config.corpus, config.folder, progress)
    if config.kind != "dense":
        raise UnknownName(no_such("kind of index", config.kind, ["tantivy", "dense"]))
    if not config.encoder:
        raise BadConfig("a dense index needs --encoder FOLDER, a sentence-transformers model")
    from agentgym.retrieval.dense import build_dense_index

    return build_dense_index(
        config.corpus,
        config.folder,
        config.encoder,
        query_prefix=config.query_prefix,
        passage_prefix=config.passage_prefix,
        search=config.search,
        device=config.device,
        progress=progress,
    )


def _progress(console: Console) -> Callable[[str, int, int | None], None]:
    """Return a callback that prints occasional progress lines, suitable for logs."""
    began = last = time.monotonic()

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY or (done == total and last > began):
            last = now
            of = "" if total is None else f" of {total}"
            console.print(f"{what}: {done}{of}, {now - began:.0f} s", markup=False, soft_wrap=True)

    return report
