"""Limits on a server's connections, so that a client that connects without sending or reading cannot block others.

uvicorn closes a connection that is idle after a response, but not one that never sends a complete request. At its limit
(`limit_concurrency`) it answers 503 to everybody, even if the other connections are silent. Therefore uvicorn's
protocol is wrapped to watch incoming data, and the application is wrapped to track the progress of each request.
"""

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import cast

from agentgym.serving.asgi import ASGI, Message, Receive, Scope, Send

REQUEST_SECONDS = 10.0
"""Seconds within which a request must be complete, plus one second per MiB."""
READ_SECONDS = 60.0
"""Seconds within which a client must read a response."""
MOST = 1024
"""Maximum number of simultaneous connections, also limited by the system's limit on open files."""
_SPARE = 32
"""Number of connections above the maximum that get the response that the server is busy."""
_LOOK = 20  # number of checks within the shorter of the two limits
_BODY = 1.5
"""Factor on the time limit of a request body.

An application that reads the body has the plain limit, so it reports a late body first and with a reason.
"""
_STATE = "agentgym.connection"


class Connections:
    """All connections of one server.

    A connection is closed if it has no complete request within `seconds`, or if its client leaves a response unread for
    `read_seconds`. At `most` connections, a new one replaces the one that has been without a request longest; if none is
    idle, up to `_SPARE` more get the response that the server is busy.
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
        """Return a protocol object for a new connection, which wraps uvicorn's."""
        connection = Connection(self)
        connection.inner = self._inner(config, server_state, {**app_state, _STATE: connection}, _loop)
        return connection

    def watched(self, app: ASGI) -> ASGI:
        """Return the application, wrapped so that the progress of its requests is tracked."""

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
        """Add a connection; above the maximum, close an idle one; more than `_SPARE` above it, close the new one."""
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
        """Close a connection at once; unsent data is dropped."""
        self._open.pop(connection, None)
        connection.transport.abort()

    def _look(self) -> None:
        """Close connections that are late, and schedule the next check while any are open."""
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
    """A client's connection: wraps uvicorn's protocol object and tracks the progress of a request."""

    inner: asyncio.Protocol
    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self.since = time.monotonic()
        """Time at which the current state began (monotonic clock, seconds)."""
        self.idle = True
        """True if no request is being answered and no WebSocket is in use."""
        self._asking = True
        """True while a request is expected or arriving: after connecting, and from a request's first byte."""
        self._size = 0
        self._unread, self._unread_since = 0, self.since
        """Number of bytes that the client has not read, and the time at which it last read some."""

    def late(self, now: float) -> bool:
        """Return True if the client takes too long to send its request or to read a response."""
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread or not self._unread:
            self._unread_since = now
        self._unread = unread
        if now - self._unread_since > self._all.read_seconds:
            return True
        seconds = self._all.seconds * (1 if self.idle else _BODY)
        return self._asking and now - self.since > seconds + self._size / 2**20

    # Events from the transport, as uvicorn's protocol gets them

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and pass the event on to uvicorn's protocol."""
        self.transport = cast("asyncio.Transport", transport)
        self.inner.connection_made(transport)
        self._all.add(self)

    def data_received(self, data: bytes) -> None:
        """Count received data and pass it on to uvicorn's protocol."""
        if self.idle and not self._asking:
            self._begin_asking()
        if self._asking:
            self._size += len(data)
        self.inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell uvicorn's protocol that the connection is closed."""
        self.inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Tell uvicorn's protocol that the client sends no more data."""
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        """Tell uvicorn's protocol to pause, because the client does not read."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell uvicorn's protocol to resume, because the client reads again."""
        self.inner.resume_writing()

    # Calls of the application

    def _begin_asking(self) -> None:
        self._asking, self._size, self.since = True, 0, time.monotonic()

    async def answer(self, app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer a request whose headers have arrived; the body may still be arriving."""
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
            self.idle, self.since = True, time.monotonic()  # still expected if the body was not read to its end

    async def talk(self, app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application serve a WebSocket, which counts as idle until its first message."""
        self._asking, self.since = False, time.monotonic()

        async def received() -> Message:
            message = await receive()
            self.idle = self.idle and message["type"] != "websocket.receive"
            return message

        await app(scope, received, send)


def _files() -> int:
    """Return the number of connections that the limit on open files allows, with a reserve for other files."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows
        return MOST
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft * 3 // 4, 16)
