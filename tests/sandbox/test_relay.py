"""The relay of a container's connections, with its program in a process of this machine instead of a container."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

import pytest

from agentgym.sandbox.docker.relay import CONNECTIONS, Relay


class Stream:
    """A program's streams, as a container gives them."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen([sys.executable, *command[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout.fileno()

    def read(self) -> bytes:
        return os.read(self.output, 1 << 16)

    def write(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it was closed
            self.input.write(data)
            self.input.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Here:
    def stream(self, user: str, command: list[str], *, most: int) -> Stream:
        return Stream(command)


def echo(connection: socket.socket) -> None:
    """Answer what arrives until the client ends its side, as a server of HTTP does."""
    with connection, contextlib.suppress(OSError):
        while piece := connection.recv(1000):
            connection.sendall(piece)


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        relay = Relay(Here(), "agent", server.getsockname())  # type: ignore[arg-type]
        yield "127.0.0.1", int(relay.address.rpartition(":")[2])
        relay.close()


def answered(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    with contextlib.suppress(OSError):
        connection.sendall(b"hello")
        return connection.recv(5)
    return b""


def test_connections_that_a_client_has_closed_make_room_for_others(address):
    """None of them has sent anything, so only the end of the client's side tells the server to close."""
    many = [socket.create_connection(address) for _ in range(CONNECTIONS)]
    assert answered(many[-1]) == b"hello"
    for connection in many:
        connection.close()
    with socket.create_connection(address) as connection:
        assert answered(connection) == b"hello"


def test_connections_above_the_limit_are_closed(address):
    many = [socket.create_connection(address) for _ in range(CONNECTIONS + 8)]
    assert [answered(connection) for connection in many] == [b"hello"] * CONNECTIONS + [b""] * 8
    for connection in many:
        connection.close()
