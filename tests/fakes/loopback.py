"""Real servers on loopback, each in a thread: the gateway, and one that misbehaves as it is told."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentgym.gateway.app import App
from agentgym.serving.server import serve


@contextlib.contextmanager
def serving(app: App) -> Iterator[str]:
    """Serve an application; yields its address without /v1."""
    found: list[Any] = []
    there = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()

        def ready(address: str) -> None:
            found.extend((address, asyncio.get_running_loop(), stop))
            asyncio.get_running_loop().call_later(0.05, there.set)

        await serve(app, "127.0.0.1", 0, ready, stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert there.wait(30)
    try:
        yield found[0]
    finally:
        found[1].call_soon_threadsafe(found[2].set)
        thread.join(30)
        assert not thread.is_alive()


GOOD = {"choices": [{"token_ids": [65, 66], "finish_reason": "length", "logprobs": {"token_logprobs": [-1.0, -2.0]}}]}


def changed(**choice: Any) -> dict[str, Any]:
    """Return a good answer with parts of its choice replaced."""
    return {"choices": [{**GOOD["choices"][0], **choice}]}


class Faulty(ThreadingHTTPServer):
    """Answers each POST with the next of a script: a status, a word that `_Faulty.WORDS` knows, bytes, or an object.

    `(status, headers, body)` is an answer in full; a function makes one from a request's JSON. `times` holds when each was
    asked, in seconds, `bodies`, `paths` and `heads` (headers) what.
    """

    daemon_threads = True
    request_queue_size = 128  # or the system would drop the sixth of those that come together

    def __init__(self, script: Sequence[Any], then: Any = GOOD) -> None:
        super().__init__(("127.0.0.1", 0), _Faulty)
        self.script, self.then, self.requests = list(script), then, 0
        self.times: list[float] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.heads: list[Any] = []
        self.free = threading.Event()
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""

    def next(self) -> Any:
        with self.lock:
            self.requests += 1
            self.times.append(time.monotonic())
            return self.script.pop(0) if self.script else self.then


class _Faulty(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, json.dumps({"data": [{"id": "m", "max_model_len": 512}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        self.server.heads.append(self.headers)  # type: ignore[attr-defined]
        what = self.server.next()  # type: ignore[attr-defined]
        what = what(body) if callable(what) else what
        with contextlib.suppress(OSError):  # who asked has hung up
            if isinstance(what, str):
                self.close_connection = True
                self.WORDS[what](self)
            elif isinstance(what, int):
                self.answer(what, b'{"error": {"message": "no"}}', {"Retry-After": "0.01"} if what == 429 else {})
            elif isinstance(what, tuple):
                self.answer(what[0], what[2], what[1])
            else:
                self.answer(200, what if isinstance(what, bytes) else json.dumps(what).encode())

    def silent(self) -> None:
        self.server.free.wait(20)  # type: ignore[attr-defined]

    def half(self) -> None:
        self.begin("application/json", "5000")
        self.wfile.write(b'{"choices": [{"token_ids": [1, 2')

    def half_stream(self) -> None:
        self.begin("text/event-stream", "5000")
        self.wfile.write(b'data: {"choices": [{"delta": {"content": "hi')

    def drip(self) -> None:
        """One byte at a time, each well within any time between two bytes."""
        self.begin("application/json", "5000")
        while not self.server.free.wait(0.1):  # type: ignore[attr-defined]
            self.wfile.write(b" ")
            self.wfile.flush()

    def huge(self) -> None:
        self.begin("application/json", str(100 << 20))
        for _ in range(100):
            self.wfile.write(b" " * (1 << 20))

    def bad_zip(self) -> None:
        self.answer(200, b"this is no zip", {"Content-Encoding": "gzip"})

    def no_http(self) -> None:
        self.wfile.write(b"\x16\x03\x01\x02\x00\x01\x1b[31m\xff\xfe\r\n\r\n")

    def begin(self, kind: str, length: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", length)
        self.end_headers()

    WORDS = {  # noqa: RUF012
        "nothing": lambda self: None,
        "silent": silent,
        "half": half,
        "half a stream": half_stream,
        "drip": drip,
        "huge": huge,
        "bad zip": bad_zip,
        "no http": no_http,
    }

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def faulty(script: Sequence[Any], then: Any = GOOD) -> Iterator[tuple[Faulty, str]]:
    """Serve a script of faults; yields the server and its address."""
    with Faulty(script, then) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.free.set()
            server.shutdown()
            thread.join(30)


def free_port() -> int:
    """Return a port that nothing listened on a moment ago."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]
