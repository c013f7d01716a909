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
    """A server of a fleet, and its state. Times are those of the event loop's clock."""

    backend: Backend
    serving: bool = False
    """True if it gets requests: it answers, and has the current weights."""
    reason: str = "it was not asked yet"
    """Reason why it is not serving."""
    losses: int = 0
    """Number of times it was removed; failures of requests from before do not count now."""
    begun: int = 0
    """Number of episodes that started there."""
    heard: float = 0.0
    """Time of its last sign of life."""
    running: "set[asyncio.Task[Any]]" = field(default_factory=lambda: set[asyncio.Task[Any]]())
    """Requests running there."""
    beat: asyncio.Task[None] | None = None
    """Task that asks it for a sign of life."""
    search: asyncio.Task[None] | None = None
    """Task that checks if it has come back."""


class Routes:
    """Keeps an episode at its first server, which has its prefix cached, as long as that one serves.

    An episode starts, and continues after a loss, at the server with the fewest running requests.
    """

    def __init__(self, sessions: int = SESSIONS) -> None:
        """Set the number of remembered sessions; older ones are routed like new ones."""
        self._sessions = sessions
        self._homes: dict[str, Member] = {}

    def member(self, session: str, serving: Sequence[Member]) -> Member:
        """Return the server of a session."""
        home = self._homes.pop(session, None)
        if home is None or home not in serving:
            home = min(serving, key=lambda member: (len(member.running), member.begun))
            home.begun += 1
        self._homes[session] = home  # moved to the end, so that the oldest come first
        if len(self._homes) > self._sessions:
            del self._homes[next(iter(self._homes))]
        return home

    def move(self, session: str, serving: Sequence[Member]) -> None:
        """Move a session to another server, if there is one."""
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
