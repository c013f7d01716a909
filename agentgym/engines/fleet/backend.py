"""What a fleet wants of a server, whatever software it is, and in which ways one can fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.engines.protocol import Completion, Sampling


class Lost(Exception):
    """A server that cannot be reached, broke off, or gave no sign of life in time."""


class Trouble(Exception):
    """An answer that is an error or not what was asked for, of a server that is there."""


@dataclass(frozen=True, slots=True)
class About:
    """What a server says of itself."""

    model: str
    root: str
    """Where its model came from: a folder there, or a name of the hub."""
    context: int | None
    """Most tokens of prompt and completion together; None where it does not say."""


@dataclass(slots=True)
class Answer:
    """A completion, and what it was computed from."""

    completion: Completion
    label: str
    """The label of the weights that sampled it; several, joined by commas, where they changed under way."""
    cached: int | None = None
    """Prompt tokens that came from the server's prefix cache; None where it does not say."""


@dataclass(slots=True)
class Scores:
    """Log-probabilities of the tokens of a text after the first, and the label of the weights that gave them."""

    values: list[float]
    label: str


class Backend(Protocol):
    """One server. Every call may raise Lost or Trouble; BadConfig for what no request would escape, else Fault."""

    url: str
    adapter: str
    """The name of the adapter that requests ask for; empty for the model itself. The fleet sets it."""

    def about(self) -> About:
        """Ask what it serves; blocks."""
        ...

    async def alive(self) -> str | None:
        """Return the label of its weights, None where it tells none. Its sampler has to answer, not its front alone."""
        ...

    async def generate(self, prompt: list[int], sampling: Sampling, limit: int) -> Answer:
        """Sample at most `limit` tokens."""
        ...

    async def score(self, ids: list[int]) -> Scores:
        """Score a text at temperature 1."""
        ...

    async def update(self, files: Sequence[dict[str, Any]], label: str) -> None:
        """Load weights, drop everything cached, and sample under `label` from then on.

        However it is interrupted, the server has the label only if it has all of the weights.
        """
        ...

    async def adapt(self, folder: str, label: str) -> None:
        """Load the LoRA adapter in a folder under the name `adapter`, drop the ones of before; else as `update`."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
