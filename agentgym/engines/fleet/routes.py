"""Routing of an episode's requests to the servers of a fleet."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.engines.fleet.backend import Backend

SESSIONS = 100_000
"""Number of remembered episodes."""


@dataclass(eq=False, slots=True)
class Member:
    """A server of a fleet, and its state. Times are seconds on the event loop's clock."""

    backend: Backend
    serving: bool = False
    """True if the server receives requests: it answers, and has the current weights."""
    reason: str = "it was not asked yet"
    """Reason why the server is not serving; empty while it is."""
    losses: int = 0
    """Number of times the server was removed. Callers compare it to ignore failures of requests sent before a removal."""
    begun: int = 0
    """Number of episodes started on the server since the set of active servers last changed."""
    heard: float = 0.0
    """Time of the server's last answer, to a request or a health check; reset when an idle server gets a request."""
    running: "set[asyncio.Task[Any]]" = field(default_factory=lambda: set[asyncio.Task[Any]]())
    """Requests that are running on the server."""
    beat: asyncio.Task[None] | None = None
    """Task that checks the server's health."""
    search: asyncio.Task[None] | None = None
    """Task that polls the removed server until it is back."""


class Routes:
    """Keeps each episode at its first server, which has its prefix cached, as long as that server is active.

    A new episode, or one whose server was removed, goes to the server with the fewest running requests.
    """

    def __init__(self, sessions: int = SESSIONS) -> None:
        """Set the number of remembered sessions; forgotten sessions are routed like new ones."""
        self._sessions = sessions
        self._homes: dict[str, Member] = {}

    def member(self, session: str, serving: Sequence[Member]) -> Member:
        """Return the server of a session; choose one of `serving` if the session has none or its server is not active."""
        home = self._homes.pop(session, None)
        if home is None or home not in serving:
            home = min(serving, key=lambda member: (len(member.running), member.begun))
            home.begun += 1
        self._homes[session] = home  # moved to the end, so that the oldest come first
        if len(self._homes) > self._sessions:
            del self._homes[next(iter(self._homes))]
        return home

    def move(self, session: str, serving: Sequence[Member]) -> None:
        """Move a session to another server; if no other is active, forget the session."""
        home = self._homes.pop(session, None)
        if others := [member for member in serving if member is not home]:
            self.member(session, others)

    def forget(self, session: str) -> None:
        """Forget a session that has ended."""
        self._homes.pop(session, None)

    def even(self, members: Sequence[Member]) -> None:
        """Reset the counts of started episodes, so that a returned server does not get all of the next ones."""
        for member in members:
            member.begun = 0
