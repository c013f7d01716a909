"""Which server of a fleet an episode's requests go to."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.engines.fleet.backend import Backend

SESSIONS = 100_000
"""Episodes that are remembered."""


@dataclass(eq=False, slots=True)
class Member:
    """A server of a fleet, and what is known of it. Times are those of the event loop's clock."""

    backend: Backend
    serving: bool = False
    """Whether requests go there: it answers, and has the present weights."""
    reason: str = "it was not asked yet"
    """Why not."""
    losses: int = 0
    """Times that it was left out; what a request of before met says nothing of it now."""
    begun: int = 0
    """Episodes that began there."""
    heard: float = 0.0
    """When it last gave a sign of life."""
    running: "set[asyncio.Task[Any]]" = field(default_factory=lambda: set[asyncio.Task[Any]]())
    """Requests under way there."""
    beat: asyncio.Task[None] | None = None
    """What asks it for a sign of life."""
    search: asyncio.Task[None] | None = None
    """What looks whether it has come back."""


class Routes:
    """Keeps an episode at the server where it began, which has its prefix cached, for as long as that one serves.

    An episode begins, and goes on after a loss, where the fewest requests are under way.
    """

    def __init__(self, sessions: int = SESSIONS) -> None:
        """`sessions`: how many are remembered; of more the oldest are routed as if they were new."""
        self._sessions = sessions
        self._homes: dict[str, Member] = {}

    def member(self, session: str, serving: Sequence[Member]) -> Member:
        """Return the server of a session."""
        home = self._homes.pop(session, None)
        if home is None or home not in serving:
            home = min(serving, key=lambda member: (len(member.running), member.begun))
            home.begun += 1
        self._homes[session] = home  # again at the end, so that the oldest stand first
        if len(self._homes) > self._sessions:
            del self._homes[next(iter(self._homes))]
        return home

    def move(self, session: str, serving: Sequence[Member]) -> None:
        """Let a session go on elsewhere, where there is an elsewhere."""
        home = self._homes.pop(session, None)
        if others := [member for member in serving if member is not home]:
            self.member(session, others)

    def forget(self, session: str) -> None:
        """Let go of a session that has ended."""
        self._homes.pop(session, None)

    def even(self, members: Sequence[Member]) -> None:
        """Count anew where episodes begin, so that one that came back does not get all of the next."""
        for member in members:
            member.begun = 0
