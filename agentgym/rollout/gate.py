"""A gate inside an episode: before a turn, the episode waits for a decision to continue or end."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentgym.episodes.episode import Episode
from agentgym.errors import Reason

PRUNED = Reason.PRUNED
"""Reason of an episode that a gate ended. The code that sets gates excludes these episodes from training and counts."""


class Gate(Protocol):
    """A gate that the episodes of a group share."""

    async def passes(self, attempt: int, episode: Episode, prompt: Callable[[], Sequence[int]]) -> bool:
        """Return True if the episode may continue; called before each turn. `prompt` returns the next prompt's tokens."""
        ...

    def left(self, attempt: int) -> None:
        """Record that an episode has ended, for any reason."""
        ...
