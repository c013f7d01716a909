"""Forwards an address in a container to one server outside, without a network."""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agentgym.sandbox.docker.program_stream import ProgramStream
from agentgym.sandbox.protocol import SandboxFault

PROGRAM = Path(__file__).parents[1] / "inside" / "relay.py"
HEAD = struct.Struct("!IBI")
READY, OPEN, DATA, EOF, CLOSE = 0, 1, 2, 3, 4
PIECE = 1 << 15
CONNECTIONS = 64
WAITING = 32 << 20
"""Maximum bytes of a connection that wait for the server; a connection with more is closed."""
MOST = 1 << 40
"""Maximum bytes that a relay forwards from the container over its lifetime."""


class Streaming(Protocol):
    """A sandbox that can run interactive programs."""

    def stream(self, user: str, command: list[str], *, most: int) -> ProgramStream:
        """Start a program and return its streams."""
        ...


class Relay:
    """Forwards connections from programs in a container to `server`; raises SandboxFault if it does not start.

    `user` runs the relay's program in the container. Data from the container is hostile: it cannot choose another server,
    and cannot block other connections.
    """

    def __init__(self, sandbox: Streaming, user: str, server: tuple[str, int]) -> None:
        self._server = server
        source = PROGRAM.read_text(encoding="utf-8")
        self._stream = sandbox.stream(user, ["python3", "-I", "-u", "-c", source], most=MOST)
        self._raw = bytearray()
        self._open: dict[int, _Connection] = {}
        self._one = threading.Lock()
        number, kind, _ = self._frame() or (0, CLOSE, b"")
        if kind != READY or not 0 < number < 1 << 16:
            self._stream.close()
            raise SandboxFault("the relay did not start in the container")
        self.address = f"http://127.0.0.1:{number}"
        """URL that programs in the container connect to."""
        threading.Thread(target=self._serve, name="relay", daemon=True).start()

    def close(self) -> None:
        """Stop the relay and close every connection."""
        self._stream.close()
        for connection in list(self._open.values()):
            connection.close()

    def _frame(self) -> tuple[int, int, bytes] | None:
        """Return the next frame as (connection, kind, body); None if the stream ends or the frame is malformed."""
        while True:
            if len(self._raw) >= HEAD.size:
                number, kind, length = HEAD.unpack_from(self._raw)
                if length > PIECE:
                    return None
                if len(self._raw) >= HEAD.size + length:
                    body = bytes(self._raw[HEAD.size : HEAD.size + length])
                    del self._raw[: HEAD.size + length]
                    return number, kind, body
            piece = self._stream.read()
            if not piece:
                return None
            self._raw += piece

    def _serve(self) -> None:
        while (frame := self._frame()) is not None:
            number, kind, body = frame
            connection = self._open.get(number)
            if kind == OPEN and connection is None:
                self._connect(number)
            elif connection is not None:
                connection.take(kind, body)
        self.close()

    def _connect(self, number: int) -> None:
        with self._one:
            if len(self._open) < CONNECTIONS:
                self._open[number] = _Connection(number, self._server, self._say, self._forget)
                return
        self._say(number, CLOSE)

    def _forget(self, number: int) -> None:
        with self._one:
            self._open.pop(number, None)

    def _say(self, number: int, kind: int, body: bytes = b"") -> None:
        with contextlib.suppress(SandboxFault):  # the container is gone, as its other programs report
            self._stream.write(HEAD.pack(number, kind, len(body)) + body)


class _Connection:
    """One connection to the server, with a thread for each direction."""

    def __init__(
        self, number: int, server: tuple[str, int], say: Callable[[int, int, bytes], None], over: Callable[[int], None]
    ) -> None:
        self._number, self._say, self._over = number, say, over
        self._waiting: deque[bytes | None] = deque()
        self._size = 0
        self._more = threading.Condition()
        self._socket: socket.socket | None = None
        self._closed = False
        threading.Thread(target=self._run, args=(server,), name="relay-out", daemon=True).start()

    def take(self, kind: int, body: bytes) -> None:
        """Queue a frame from the container without blocking."""
        with self._more:
            self._size += len(body)
            if kind == DATA and self._size <= WAITING:
                self._waiting.append(body)
            elif kind == EOF:
                self._waiting.append(None)
            else:
                self._closed = True
            self._more.notify()
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close the connection in both directions."""
        with self._more:
            self._closed = True
            self._more.notify()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self, server: tuple[str, int]) -> None:
        try:
            with socket.create_connection(server, timeout=30) as self._socket:
                self._socket.settimeout(None)
                threading.Thread(target=self._answers, args=(self._socket,), name="relay-in", daemon=True).start()
                while (piece := self._next()) is not None:
                    self._socket.sendall(piece)
                with contextlib.suppress(OSError):  # the client has ended its side: a server then closes an idle connection
                    self._socket.shutdown(socket.SHUT_WR)
                with self._more:  # until the server has closed its side
                    while not self._closed:
                        self._more.wait()
        except OSError:
            pass
        finally:
            self._over(self._number)
            self._say(self._number, CLOSE, b"")

    def _next(self) -> bytes | None:
        with self._more:
            while not self._waiting and not self._closed:
                self._more.wait()
            if self._closed:
                return None
            piece = self._waiting.popleft()
            self._size -= len(piece or b"")
            return piece

    def _answers(self, server: socket.socket) -> None:
        try:
            while piece := server.recv(PIECE):
                self._say(self._number, DATA, piece)
        except OSError:
            pass
        self.close()
