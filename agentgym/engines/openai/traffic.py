"""Admission of requests to servers. All requests share one queue, so a server's refusal slows all of them."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Server:
    """One server's address and health. Times are seconds on the event loop's clock."""

    url: str
    query: str = ""
    """Query string added to every request, such as `?api-version=1`."""
    load: int = 0
    """Number of running requests."""
    room: float = math.inf
    """Estimated maximum of concurrent requests: halved when the server reports too many, then slowly increased."""
    closed: float = 0.0
    """Time until which the server gets no requests."""
    ill: float = 0.0
    """Time until which other servers are preferred, after a failure of this one."""
    refusals: int = 0
    """Number of consecutive reports of too many requests."""
    answered: int = 0
    """Number of good answers."""
    heard: bool = False
    """True if the server ever answered at all."""
    unreachable: bool = False
    """True if the server never answered and the last attempt to connect failed."""


class Traffic:
    """Admits requests in order of arrival, each to the least loaded server that is open and has room.

    A server that reports too many requests gets none for the time that it names (default: `backoff * 2**(n - 1)`
    seconds after n consecutive refusals), at most `longest` seconds, and its `room` is halved; every good answer increases
    `room`. `per_minute` is the maximum of started requests per minute, evenly spaced; 0 sets no limit.
    """

    def __init__(self, servers: Sequence[Server], *, backoff: float, longest: float, per_minute: float = 0.0) -> None:
        self.servers = list(servers)
        self._backoff, self._longest = backoff, longest
        self._spacing = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._last: dict[str, Server] = {}
        self._waiting: deque[tuple[asyncio.Future[Server], str]] = deque()

    async def enter(self, session: str) -> Server:
        """Wait until a server has room for a request, and return the server; call `leave` when the request ends.

        Raises:
            CancelledError: the caller was cancelled.
        """
        loop = asyncio.get_running_loop()
        place: asyncio.Future[Server] = loop.create_future()
        self._waiting.append((place, session))
        self._let_in()
        try:
            server = await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # admitted and cancelled at the same time
                self.leave(place.result())
            raise
        start = max(loop.time(), self._next)
        self._next = start + self._spacing
        try:
            await asyncio.sleep(start - loop.time())
        except asyncio.CancelledError:
            self.leave(server)
            raise
        return server

    def leave(self, server: Server) -> None:
        """Record the end of a request, so that a waiting one can start."""
        server.load -= 1
        self._let_in()

    def well(self, server: Server) -> None:
        """Record a good answer."""
        server.answered += 1
        server.refusals = 0
        server.room += 1 / server.room

    def too_many(self, server: Server, seconds: float) -> None:
        """Record that a server refuses more requests for `seconds`; 0 if the server did not name a time."""
        now = asyncio.get_running_loop().time()
        if now >= server.closed:  # count only the first of many concurrent refusals
            server.room = max(1.0, math.ceil(min(server.room, server.load) / 2))
            server.refusals += 1
        pause = seconds or self._backoff * 2 ** min(server.refusals - 1, 60)
        server.closed = max(server.closed, now + min(pause, self._longest))

    def _let_in(self) -> None:
        """Admit waiting requests in order of arrival, as long as a server has room."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            place, session = self._waiting[0]
            if not place.done():
                now = loop.time()
                free = [s for s in self.servers if s.closed <= now and s.load < s.room]
                if not free:
                    opens = [s.closed for s in self.servers if s.closed > now]
                    if opens:  # else the next `leave` calls this again
                        loop.call_at(min(opens), self._let_in)
                    return
                server = self._best(free, session, now)
                server.load += 1
                place.set_result(server)
            self._waiting.popleft()

    def _best(self, free: Sequence[Server], session: str, now: float) -> Server:
        """Return the least loaded healthy server; ties go to the session's last server, which has its prefix cached."""
        last = self._last.get(session)
        server = min(free, key=lambda s: (s.ill > now, s.load, s is not last))
        if len(self._last) > 100_000:
            self._last.clear()
        self._last[session] = server
        return server
