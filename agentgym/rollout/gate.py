"""A gate inside an episode: after so many turns it waits until it is known whether it goes on."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentgym.episodes.episode import Episode
from agentgym.errors import Reason

PRUNED = Reason.PRUNED
"""The reason of an episode that a gate ended. Who sets gates takes these out of what is trained on and counted."""


class Gate(Protocol):
    """What the episodes of a group have in common."""

    async def passes(self, attempt: int, episode: Episode, prompt: Callable[[], Sequence[int]]) -> bool:
        """Return whether an episode goes on, before each of its turns. `prompt`: makes the tokens that it would see next."""
        ...

    def left(self, attempt: int) -> None:
        """Take note that an episode has ended, however it did."""
        ...
