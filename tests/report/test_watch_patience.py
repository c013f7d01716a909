"""The page's server under clients that say nothing or too little: they end, and keep nobody out."""

import contextlib
import socket
import threading

import httpx2
import pytest

from agentgym.report.watch import server
from agentgym.report.watch.server import PageServer, Watch

WHOLE = b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def running(monkeypatch, seconds, most=64):
    monkeypatch.setattr(server, "REQUEST_SECONDS", seconds)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", most)
    with PageServer(Watch([]), "127.0.0.1", 0, None) as page:
        thread = threading.Thread(target=page.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield page.port
        finally:
            page.shutdown()
            thread.join(60)


def opened(port, sent=b""):
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(sent)
    return made


def rest(connection):
    content = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            content += piece
    return content


def healthy(port):
    return httpx2.get(f"http://127.0.0.1:{port}/state", timeout=60).json()["runs"] == []


@pytest.mark.parametrize("sent", [b"", b"G", WHOLE[:-2]], ids=["silent", "a letter", "half a head"])
def test_a_connection_without_a_whole_request_ends(monkeypatch, sent):
    with running(monkeypatch, 0.5) as port, opened(port, sent) as connection:
        assert rest(connection) == b""
        assert healthy(port)


def test_a_byte_now_and_then_is_no_request(monkeypatch):
    with running(monkeypatch, 0.5) as port, opened(port, WHOLE[:-2]) as connection:
        connection.settimeout(0.05)
        with contextlib.suppress(ConnectionError):
            while True:
                with contextlib.suppress(TimeoutError):
                    if connection.recv(1) == b"":
                        break
                connection.sendall(b"X")
        assert healthy(port)


def test_a_second_request_has_no_more_time_than_the_first(monkeypatch):
    with running(monkeypatch, 0.5) as port, opened(port, WHOLE) as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET")
        assert not rest(connection).startswith(b"HTTP")


@pytest.mark.parametrize("sent", [b"", WHOLE], ids=["silent", "idle after an answer"])
def test_many_of_them_keep_nobody_out(monkeypatch, sent):
    with running(monkeypatch, 600, most=4) as port, contextlib.ExitStack() as stack:
        for _ in range(12):
            made = stack.enter_context(opened(port, sent))
            assert not sent or made.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert healthy(port)
