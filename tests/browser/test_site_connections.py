"""The server of embedded sites (waitress) ends a connection without a whole request, and answers others meanwhile."""

import socket
import time

import pytest

pytest.importorskip("waitress", reason="the extra `web` is not installed")

from agentgym.browser.server import Server


@pytest.mark.long
def test_silent_connections_are_ended_and_keep_nobody_out() -> None:
    """Neither a client that says nothing nor one that sends half a request holds its connection for long."""
    server = Server()
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(520)]
    try:
        for number, connection in enumerate(silent):
            connection.settimeout(60)
            connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx" if number % 2 else b"GET / HT")
        with socket.create_connection(("127.0.0.1", server.port)) as other:
            other.settimeout(60)
            other.sendall(b"GET / HTTP/1.1\r\nHost: nowhere.test\r\nConnection: close\r\n\r\n")
            assert other.recv(12).startswith(b"HTTP/1.")
        begun = time.monotonic()
        for connection in silent:
            while connection.recv(4096):
                pass  # an answer that says what is missing, then the end
        assert time.monotonic() - begun < 55  # else a recv would have waited 60 s
    finally:
        for connection in silent:
            connection.close()
        server.http.close()
