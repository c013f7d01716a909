"""Which server a request goes to, and when: all requests wait here together, so that one refusal slows all of them."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Server:
    """One address, and what is known of its health. Times are those of the event loop's clock."""

    url: str
    query: str = ""
    """What stands behind the path of every request, such as `?api-version=1`."""
    load: int = 0
    """Requests under way there."""
    room: float = math.inf
    """Requests at a time that it seems to bear: halved when it says that there are too many, then grown one by one."""
    closed: float = 0.0
    """Until when it wants no requests."""
    ill: float = 0.0
    """Until when others are preferred, since it failed."""
    refusals: int = 0
    """Times in a row that it wanted no more requests."""
    answered: int = 0
    """Good answers."""
    heard: bool = False
    """Whether it ever answered anything, good or bad."""
    unreachable: bool = False
    """Whether the last connection to it failed, and it was never heard."""


class Traffic:
    """Lets requests through in order of arrival, each to the least loaded server that is open and has room.

    A server that says "too many" is closed for all for the time it names (else `backoff * 2**n` seconds, n refusals in a
    row), at most `longest`, and bears half as many requests at a time from then on; every good answer gives some room back.
    `per_minute` is the most requests started in a minute, evenly spaced; 0 sets no limit.
    """

    def __init__(self, servers: Sequence[Server], *, backoff: float, longest: float, per_minute: float = 0.0) -> None:
        self.servers = list(servers)
        self._backoff, self._longest = backoff, longest
        self._spacing = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._last: dict[str, Server] = {}
        self._waiting: deque[tuple[asyncio.Future[Server], str]] = deque()

    async def enter(self, session: str) -> Server:
        """Wait for a place and take it; `leave` gives it back."""
        loop = asyncio.get_running_loop()
        place: asyncio.Future[Server] = loop.create_future()
        self._waiting.append((place, session))
        self._let_in()
        try:
            server = await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # given and taken away in the same moment
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
        """Give a place back."""
        server.load -= 1
        self._let_in()

    def well(self, server: Server) -> None:
        """Note a good answer."""
        server.answered += 1
        server.refusals = 0
        server.room += 1 / server.room

    def too_many(self, server: Server, seconds: float) -> None:
        """Note that a server wants no more requests for so many seconds; 0 where it named no time."""
        now = asyncio.get_running_loop().time()
        if now >= server.closed:  # of many refused together, only the first is news
            server.room = max(1.0, math.ceil(min(server.room, server.load) / 2))
            server.refusals += 1
        pause = seconds or self._backoff * 2 ** min(server.refusals - 1, 60)
        server.closed = max(server.closed, now + min(pause, self._longest))

    def _let_in(self) -> None:
        """Give free places to those who wait, first come, first served."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            place, session = self._waiting[0]
            if not place.done():
                now = loop.time()
                free = [s for s in self.servers if s.closed <= now and s.load < s.room]
                if not free:
                    opens = [s.closed for s in self.servers if s.closed > now]
                    if opens:  # else the next `leave` brings us back
                        loop.call_at(min(opens), self._let_in)
                    return
                server = self._best(free, session, now)
                server.load += 1
                place.set_result(server)
            self._waiting.popleft()

    def _best(self, free: Sequence[Server], session: str, now: float) -> Server:
        """Return the least loaded healthy server; where a session was last, its prefix is cached, which breaks ties."""
        last = self._last.get(session)
        server = min(free, key=lambda s: (s.ill > now, s.load, s is not last))
        if len(self._last) > 100_000:
            self._last.clear()
        self._last[session] = server
        return server
