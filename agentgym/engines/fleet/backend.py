"""The server interface of a fleet, for any server software, and its failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.engines.protocol import Completion, Sampling


class ServerUnreachable(Exception):
    """A server cannot be reached, broke the connection, or did not answer a health check in time."""


class ServerFailure(Exception):
    """A reachable server answered with an error or with unexpected content."""


@dataclass(frozen=True, slots=True)
class About:
    """A server's description of itself."""

    model: str
    root: str
    """Source of its model: a folder on the server, or a hub name."""
    context: int | None
    """Maximum tokens of prompt and completion together; None if unknown."""


@dataclass(slots=True)
class Answer:
    """A completion and its origin."""

    completion: Completion
    label: str
    """Label of the weights that sampled it; several, joined by commas, if they changed in between."""
    cached: int | None = None
    """Prompt tokens from the server's prefix cache; None if unknown."""


@dataclass(slots=True)
class Scores:
    """Log-probabilities of a text's tokens after the first, and the label of the weights that computed them."""

    values: list[float]
    label: str


class Backend(Protocol):
    """One server.

    Every call may raise ServerUnreachable or ServerFailure; BadConfig if every request would fail, else Fault.
    """

    url: str
    adapter: str
    """Name of the adapter for requests, set by the fleet; empty for the model itself."""

    def about(self) -> About:
        """Return the server's description; blocks."""
        ...

    async def alive(self) -> str | None:
        """Return the label of its weights, or None if it reports none. Its sampler has to answer, not only its front end."""
        ...

    async def generate(self, prompt: list[int], sampling: Sampling, limit: int) -> Answer:
        """Sample at most `limit` tokens."""
        ...

    async def score(self, ids: list[int]) -> Scores:
        """Return the log-probabilities at temperature 1 of all tokens after the first."""
        ...

    async def update(self, files: Sequence[dict[str, Any]], label: str) -> None:
        """Load weights, drop all caches, and sample under `label` from then on.

        Even if interrupted, the server has the label only if it has all of the weights.
        """
        ...

    async def adapt(self, folder: str, label: str) -> None:
        """Load the LoRA adapter in a folder under the name `adapter` and drop earlier ones; otherwise like `update`."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
