"""Bounds on the connections of a server: a client that connects without sending or reading cannot block others.

uvicorn ends a connection that is idle after an answer, but not one that never sends a whole request, and at its
`limit_concurrency` it answers 503 to everybody, however silent the others are. So uvicorn's own protocol stands inside of
one that watches what comes, and the application inside of one that says how far each request is.
"""

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import cast

from agentgym.serving.asgi import ASGI, Message, Receive, Scope, Send

REQUEST_SECONDS = 10.0
"""Seconds until a request must be complete, plus one second per MiB."""
READ_SECONDS = 60.0
"""Seconds within which a client must read a response."""
MOST = 1024
"""Maximum number of connections at once, capped by the system's limit on open files."""
_SPARE = 32
"""Connections beyond the most that still get an answer: that the server is busy."""
_LOOK = 20  # times that connections are looked at within the shorter of the limits
_BODY = 1.5
"""Factor on the time limit of a body here; an application that reads the body reports a late one earlier, with a
reason.
"""
_STATE = "agentgym.connection"


class Connections:
    """The connections of one server.

    One that has no whole request within `seconds` is ended, and so is one whose client leaves an answer unread for
    `read_seconds`. Where there are `most`, the one that has been without a request longest makes room for the next.
    """

    def __init__(
        self,
        inner: Callable[..., asyncio.Protocol],
        most: int = MOST,
        seconds: float = REQUEST_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self.most, self.seconds, self.read_seconds = min(most, _files()), seconds, read_seconds
        self._inner = inner
        self._open: dict[Connection, None] = {}
        self._looking: asyncio.TimerHandle | None = None

    def protocol(
        self, config: object, server_state: object, app_state: dict[str, object], _loop: object = None
    ) -> "Connection":
        """Return uvicorn's protocol object for a new connection."""
        connection = Connection(self)
        connection.inner = self._inner(config, server_state, {**app_state, _STATE: connection}, _loop)
        return connection

    def watched(self, app: ASGI) -> ASGI:
        """Return the application, whose requests are followed."""

        async def follow(scope: Scope, receive: Receive, send: Send) -> None:
            connection = cast("dict[str, Connection | None]", scope.get("state") or {}).pop(_STATE, None)
            if connection is None:  # the lifespan
                await app(scope, receive, send)
            elif scope["type"] == "websocket":
                await connection.talk(app, scope, receive, send)
            else:
                await connection.answer(app, scope, receive, send)

        return follow

    def add(self, connection: "Connection") -> None:
        """Take a connection in, in place of an idle one if there are too many."""
        if len(self._open) >= self.most:
            self._look()
            idle = [other for other in self._open if other.idle]
            if idle and len(self._open) >= self.most:
                self.end(min(idle, key=lambda other: other.since))
        self._open[connection] = None
        if len(self._open) > self.most + _SPARE:
            self.end(connection)
            return
        if self._looking is None:
            self._look()

    def end(self, connection: "Connection") -> None:
        """Close a connection; unread data is dropped."""
        self._open.pop(connection, None)
        connection.transport.abort()

    def _look(self) -> None:
        """Close late connections, and check again while any are open."""
        if self._looking:
            self._looking.cancel()
            self._looking = None
        now = time.monotonic()
        for connection in list(self._open):
            if connection.transport.is_closing() and not connection.transport.get_write_buffer_size():
                del self._open[connection]
            elif connection.late(now):
                self.end(connection)
        if self._open:
            self._looking = asyncio.get_running_loop().call_later(min(self.seconds, self.read_seconds) / _LOOK, self._look)


class Connection(asyncio.Protocol):
    """One client's connection: uvicorn's protocol object, and the progress of its request."""

    inner: asyncio.Protocol
    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self.since = time.monotonic()
        """When the present state began."""
        self.idle = True
        """True if no request is being answered, and no WebSocket is in use."""
        self._asking = True
        """True if a request is awaited or under way: at the beginning, and from its first byte."""
        self._size = 0
        self._unread, self._unread_since = 0, self.since
        """Bytes that the client had left unread, and when it last read some."""

    def late(self, now: float) -> bool:
        """Return whether the client takes too long, to send its request or to read an answer."""
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread or not self._unread:
            self._unread_since = now
        self._unread = unread
        if now - self._unread_since > self._all.read_seconds:
            return True
        seconds = self._all.seconds * (1 if self.idle else _BODY)
        return self._asking and now - self.since > seconds + self._size / 2**20

    # What uvicorn's protocol gets from its transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self.inner.connection_made(transport)
        self._all.add(self)

    def data_received(self, data: bytes) -> None:
        """Forward received data."""
        if self.idle and not self._asking:
            self._begin_asking()
        if self._asking:
            self._size += len(data)
        self.inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Tell uvicorn's protocol that the client sends no more."""
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        """Tell uvicorn's protocol that the client does not read."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that it does again."""
        self.inner.resume_writing()

    # What the application does

    def _begin_asking(self) -> None:
        self._asking, self._size, self.since = True, 0, time.monotonic()

    async def answer(self, app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose head has come; its body may still be on its way."""
        headers = {name.lower() for name, _ in scope["headers"]}
        self._begin_asking()
        self.idle, self._asking = False, bool(headers & {b"content-length", b"transfer-encoding"})

        async def received() -> Message:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                self._asking = False
            return message

        try:
            await app(scope, received, send)
        finally:
            self.idle, self.since = True, time.monotonic()  # still asking where the body was not read to its end

    async def talk(self, app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a WebSocket: idle until its first message, and in use from then on."""
        self._asking, self.since = False, time.monotonic()

        async def received() -> Message:
            message = await receive()
            self.idle = self.idle and message["type"] != "websocket.receive"
            return message

        await app(scope, received, send)


def _files() -> int:
    """Return the number of connections that the limit on file descriptors allows, minus a reserve for other files."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows
        return MOST
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft * 3 // 4, 16)
