"""The client of a retriever over HTTP, against servers that are dead, slow or talk nonsense."""

import http.server
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from retrievers import DOCUMENTS, serving, write_corpus

from agentgym.errors import BadConfig, Fault
from agentgym.retrieval.client import Client
from agentgym.retrieval.opening import open_retriever


@contextmanager
def answering(answer: Callable[[Any], None]) -> Generator[str]:
    """Serve POSTs by a function of the handler; give the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers["content-length"]))
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def say(handler: Any, content: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


GARBAGE: list[tuple[object, str]] = [
    (b"<html>", "no JSON"),
    (b"[" * 100_000, "no JSON"),
    ([], "with 1 list"),
    ({"results": [[]]}, "with 1 list"),
    ({"result": []}, "with 1 list"),
    ({"result": [{}]}, "not a list of documents"),
    ({"result": [["text"]]}, "not a document"),
    ({"result": [[{"document": {"id": "1"}, "score": 1}]]}, "not a document of id and contents"),
    ({"result": [[{"document": {"id": [], "contents": "x"}, "score": 1}]]}, "not a document of id"),
    ({"result": [[{"document": {"id": "1", "contents": "x"}, "score": "high"}]]}, "number"),
    (b'{"result": [[{"document": {"id": "1", "contents": "x"}, "score": NaN}]]}', "the score nan"),
]


@pytest.mark.long
@pytest.mark.parametrize(("content", "words"), GARBAGE)
def test_garbage_is_refused_at_the_start_and_a_fault_later(content: object, words: str) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    with answering(lambda handler: say(handler, raw)) as url:
        with pytest.raises(BadConfig, match=f"is not a retriever .*{words}"):
            open_retriever(url)
        with pytest.raises(Fault, match=f"in 3 attempts: .*{words}") as fault:
            Client(url, retries=2, backoff=0.001).search(["red"], 3)
        assert fault.value.reason == "engine"


def test_forms_of_documents_that_genuine_servers_send() -> None:
    """Search-R1's BM25 sends title, text and contents without an id; without scores, a document stands by itself."""
    bm25 = {"title": "Ada", "text": "wrote", "contents": '"Ada"\nwrote'}
    body = {
        "result": [
            [{"document": bm25, "score": 2}, {"id": 7, "contents": '""Heroes" (album)"\nx'}, {"title": "T", "text": "y"}]
        ]
    }
    with answering(lambda handler: say(handler, json.dumps(body).encode())) as url:
        client = Client(url)
        client.check()
        [hits] = client.search(["ada"], 3)
        assert [(hit.document.contents, hit.score) for hit in hits] == [
            ('"Ada"\nwrote', 2.0),
            ('""Heroes" (album)"\nx', 0.0),
            ('"T"\ny', 0.0),
        ]
        assert hits[1].document.id == "7" and hits[1].document.title == '"Heroes" (album)'
        assert hits[0].document.id == client.search(["ada"], 1)[0][0].document.id and len(hits[0].document.id) == 16


def test_failures_are_retried_with_back_off_and_refusals_are_not() -> None:
    statuses, times = [503, 429, 500, 200, 404], list[float]()
    good = json.dumps({"result": [[{"document": {"id": "1", "contents": "x\ny"}, "score": 1}]]}).encode()

    def answer(handler: Any) -> None:
        times.append(time.monotonic())
        say(handler, good, statuses[len(times) - 1])

    with answering(answer) as url:
        client = Client(url, backoff=0.05)
        assert client.search(["red"], 3)[0][0].document.title == "x"
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert len(pauses) == 3 and all(pause >= 0.05 * 2**n for n, pause in enumerate(pauses))
        with pytest.raises(Fault, match="refused: status 404") as fault:
            client.search(["red"], 3)
        assert fault.value.reason == "engine" and len(times) == 5


def test_servers_that_are_late_or_drip_are_a_timeout() -> None:
    stop = threading.Event()

    def hang(handler: Any) -> None:
        stop.wait(20)

    def drip(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        while not stop.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    for answer in (hang, drip):
        with answering(answer) as url, pytest.raises(Fault, match="no answer in time") as fault:
            try:
                Client(url, timeout=0.3, retries=1, backoff=0.01).search(["red"], 3)
            finally:
                stop.set()
        stop.clear()
        assert fault.value.reason == "timeout"


def test_nobody_there() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BadConfig, match=rf"nothing answers at {url}/retrieve .*start the retriever first"):
            open_retriever(url)
        with pytest.raises(Fault, match="in 3 attempts") as fault:
            Client(url, retries=2, backoff=0.01).search(["red"], 3)
        assert fault.value.reason == "engine"
    for bad in ("http://[", "http://a b"):
        with pytest.raises(BadConfig, match=r"is not a retriever|nothing answers"):
            open_retriever(bad)


def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving("--corpus", corpus, "--port", port) as (url, process):
        client = Client(url, retries=30, backoff=0.5, seconds=60)
        before = client.search(["red sea"], 3)
        process.kill()
        process.wait()
    found = list[Any]()
    asking = threading.Thread(target=lambda: found.extend(client.search(["red sea"], 3)))
    asking.start()
    with serving("--corpus", corpus, "--port", port):
        asking.join(60)
    assert found == before


def test_no_more_is_read_of_an_answer_than_the_documents_may_take() -> None:
    """64 KiB, and 256 KiB for each document of each query; more is a Fault at once, and asking again would not help."""

    def answer(size: int) -> bytes:
        return json.dumps({"result": [[{"document": {"id": "1", "contents": "x" * size}, "score": 1.0}]]}).encode()

    sizes: list[int] = []
    with answering(lambda handler: (sizes.append(1), say(handler, answer(320 * 1024 - 200)))[1]) as url:
        assert len(Client(url).search(["red"], 1)[0][0].document.title) > 300_000
    with answering(lambda handler: (sizes.append(1), say(handler, answer(321 * 1024)))[1]) as url:
        with pytest.raises(Fault, match="more than 320 KiB for 1 documents of 1 queries"):
            Client(url, backoff=0.001).search(["red"], 1)
        assert len(Client(url).search(["red"], 2)[0]) == 1  # two documents may take more
    assert len(sizes) == 3
