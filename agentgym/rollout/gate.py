"""A gate inside an episode: after a number of turns the episode waits for a decision to continue."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentgym.episodes.episode import Episode
from agentgym.errors import Reason

PRUNED = Reason.PRUNED
"""Reason of an episode that a gate ended. Code that sets gates removes these from training and counts."""


class Gate(Protocol):
    """The shared gate of a group's episodes."""

    async def passes(self, attempt: int, episode: Episode, prompt: Callable[[], Sequence[int]]) -> bool:
        """Return True if an episode continues; called before each turn. `prompt` makes the tokens of its next prompt."""
        ...

    def left(self, attempt: int) -> None:
        """Record that an episode has ended, for any reason."""
        ...
