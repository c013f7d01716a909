"""The interface between a fleet and one server, independent of the server software, and its exceptions."""

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
    """Source of the served model: a folder on the server, or a hub name."""
    context: int | None
    """Maximum tokens of prompt and completion together; None if unknown."""


@dataclass(slots=True)
class Answer:
    """A completion and its origin."""

    completion: Completion
    label: str
    """Label of the weights that sampled the completion; labels joined by commas if the weights changed meanwhile."""
    cached: int | None = None
    """Prompt tokens from the server's prefix cache; None if unknown."""


@dataclass(slots=True)
class Scores:
    """Log-probabilities of a text's tokens after the first, and the label of the weights that computed them."""

    values: list[float]
    label: str


class Backend(Protocol):
    """Interface to one server.

    Every call may raise ServerUnreachable or ServerFailure. A call raises BadConfig if every request would fail for the
    same reason, and Fault if only this request fails.
    """

    url: str
    adapter: str
    """Name of the LoRA adapter to request, set by the fleet; empty for the model itself."""

    def about(self) -> About:
        """Return the server's description; blocks."""
        ...

    async def alive(self) -> str | None:
        """Return the label of the server's weights, or None if the server reports no label.

        The answer has to come from the server's sampler, not only from its HTTP front end.
        """
        ...

    async def generate(self, prompt: list[int], sampling: Sampling, limit: int) -> Answer:
        """Sample at most `limit` tokens."""
        ...

    async def score(self, ids: list[int]) -> Scores:
        """Return the log-probabilities at temperature 1 of all tokens after the first."""
        ...

    async def update(self, files: Sequence[dict[str, Any]], label: str) -> None:
        """Load weights, drop all caches, and report `label` from then on.

        `files` describes safetensors files that the server can read, in the format of `shards.message`.
        After an interrupted update, the server must not report `label`.
        """
        ...

    async def adapt(self, folder: str, label: str) -> None:
        """Like `update`, but load the LoRA adapter in `folder` under the name in `adapter`, and drop earlier adapters."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
