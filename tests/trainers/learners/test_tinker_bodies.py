"""Answers of a server of the Tinker API have an end: tinker 0.38.0 reads 583 MiB of one in 15 seconds."""

import asyncio
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("tinker", reason="the extra `tinker` is not installed")

from tinker import APIConnectionError
from tinker._client import AsyncTinker

from agentgym.trainers.learners.tinker import bodies
from agentgym.trainers.learners.tinker.service import client_package

PACKED = gzip.compress(b" " * (32 << 20), 1)


class Endless(BaseHTTPRequestHandler):
    """Answers with what the path names; counts the MiB that a client took."""

    sent = 0

    def do_GET(self):
        packed = self.path.endswith("packed")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if not self.path.endswith("endless"):
            self.wfile.write(PACKED if packed else b'{"a": 1}')
            return
        try:
            for _ in range(200):
                self.wfile.write(b" " * (1 << 20))
                type(self).sent += 1
        except OSError:
            pass

    def log_message(self, *_):
        pass


async def ask(port, path):
    async with AsyncTinker(base_url=f"http://127.0.0.1:{port}", api_key="tml-x", max_retries=0) as client:
        return await client.get(path, cast_to=object)


def test_an_answer_has_a_largest_size_also_if_it_was_packed(monkeypatch):
    client_package()
    client_package()  # which changes nothing more
    monkeypatch.setattr(bodies, "LARGEST", 4 << 20)
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert asyncio.run(ask(server.server_port, "/plain")) == {"a": 1}
        for path in ("/endless", "/packed"):
            with pytest.raises(APIConnectionError):
                asyncio.run(ask(server.server_port, path))
        server.shutdown()
    assert Endless.sent < 100  # what lies in buffers between the two
