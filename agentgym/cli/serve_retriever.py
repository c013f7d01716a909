"""Serve a retriever to many environments at once, in Search-R1's form: POST /retrieve {queries, topk, return_scores}.

agentgym serve retriever --corpus wiki-18.jsonl --index runs/wiki    tantivy on disk; builds the index if it does not exist
agentgym serve retriever --index runs/wiki-e5 --port 8100           an existing index of any kind
agentgym serve retriever --corpus corpus.jsonl                      bm25s in memory, without an index
"""

import asyncio
import importlib.util
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from agentgym.errors import BadConfig, MissingExtra, how_to_install


@dataclass(frozen=True)
class Config:
    """Options of `agentgym serve retriever`."""

    index: str = ""
    """Folder of an index; built from --corpus if it does not exist."""
    corpus: str = ""
    """Documents in JSON lines, also .gz; without --index they are indexed in memory."""
    kind: str = ""
    """Kind of index to make: tantivy (default) or dense."""
    encoder: str = ""
    """Folder of the encoder of a dense index, used both to build and to search the index."""
    query_prefix: str = ""
    """Prefix that the encoder expects before a query; for E5 "query: "."""
    passage_prefix: str = ""
    """Prefix that the encoder expects before a passage; for E5 "passage: "."""
    host: str = "127.0.0.1"
    """Address to listen on; anyone who can reach it can read the documents."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    topk: int = 3
    """Number of documents returned if a request does not set one."""
    batch: int = 256
    """Maximum number of queries searched together."""
    threads: int = 1
    """Threads that share a batch."""
    cache: int = 10_000
    """Maximum number of cached answers."""
    seconds: float = 30.0
    """Time limit of a request, in seconds."""
    body_mib: int = 16
    """Largest request body in MiB."""


def run(config: Config) -> int:
    """Serve until Ctrl-C.

    Raises:
        BadConfig: an option is invalid.
        MissingExtra: uvicorn is not installed.
    """
    if not 0 <= config.port < 65536 or config.body_mib < 1 or config.topk < 1 or config.seconds <= 0:
        raise BadConfig(
            f"--port is {config.port}, --body-mib {config.body_mib}, --topk {config.topk}, --seconds {config.seconds}; "
            "expected 0 to 65535, and numbers above 0"
        )
    if importlib.util.find_spec("uvicorn") is None:
        raise MissingExtra(f"serving needs uvicorn: {how_to_install('serve')}")
    from agentgym.serving.server import terminated_as_interrupted

    retriever = _retriever(config)
    try:
        with terminated_as_interrupted():
            asyncio.run(_serve(config, retriever))
    except KeyboardInterrupt:  # uvicorn has shut down and re-raises the signal
        pass
    finally:
        retriever.close()
    return 0


def _retriever(config: Config) -> Any:
    from agentgym.cli import index
    from agentgym.retrieval.folder import kind_of

    if config.index and (config.corpus or kind_of(config.index) is None):
        kind = config.kind or kind_of(config.index) or "tantivy"
        config_of_index = index.Config(
            config.corpus, config.index, kind, config.encoder, config.query_prefix, config.passage_prefix
        )
        return index.make(config_of_index, Console(stderr=True, highlight=False))
    if config.index:
        from agentgym.retrieval.opening import open_retriever

        kind = kind_of(config.index)
        encoder = f":{config.encoder}" if kind == "dense" and config.encoder else ""
        return open_retriever(f"{kind}:{config.index}{encoder}")
    if not config.corpus:
        raise BadConfig("say what to serve: --index FOLDER, --corpus FILE, or both")
    from agentgym.retrieval.documents import read_corpus
    from agentgym.retrieval.memory import Corpus

    corpus = Corpus(read_corpus(config.corpus))
    corpus.search(["a"], 1)  # builds the index before the first client waits
    return corpus


async def _serve(config: Config, retriever: Any) -> None:
    from agentgym.retrieval.app import App
    from agentgym.retrieval.batching import Batches
    from agentgym.serving.server import loopback, serve

    batches = Batches(retriever, most=config.batch, threads=config.threads, cached=config.cache)
    console = Console(highlight=False)

    def ready(address: str) -> None:
        banner = f"{retriever.size} documents at {address}/retrieve (Ctrl-C ends)"
        console.print(banner, markup=False, soft_wrap=True)

    app = App(
        batches,
        topk=config.topk,
        seconds=config.seconds,
        body_bytes=config.body_mib << 20,
        local=loopback(config.host),
    )
    try:
        await serve(app, config.host, config.port, ready)
    finally:
        batches.close()
        banner = f"\n{batches.searched} searched in {batches.batches} batches, {batches.remembered} remembered"
        console.print(banner, markup=False, soft_wrap=True)
