"""Requests that the hf engine is working on."""

import asyncio
from dataclasses import dataclass, field

from agentgym.engines.hf.drafting import DraftResult
from agentgym.engines.hf.sampling import Draw
from agentgym.engines.protocol import Completion, Draft, Likeliest, Request
from agentgym.engines.slots import Slot


@dataclass(slots=True, eq=False)
class Running:
    """State of one active request."""

    request: Request
    future: "asyncio.Future[Completion]"
    limit: int
    """Maximum tokens of the completion: the smaller of `max_tokens` and the rest of the context."""
    random: list[float]
    slot: Slot | None = None
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    draft: Draft | None = None
    """Draft for the next step, cut to the tokens that still fit."""
    reused: int = 0
    likeliest: list[Likeliest] = field(default_factory=list[Likeliest])

    def draw(self) -> Draw:
        request = self.request
        seen = [*request.prompt_ids, *self.ids] if request.sampling.repetition_penalty != 1.0 else ()
        return Draw(request.sampling, self.random[len(self.ids)], seen, request.likeliest)

    @property
    def drafted(self) -> int:
        return len(self.draft.ids) if self.draft else 0


Taker = tuple[Running, DraftResult]
"""A request and what a step adds to it."""
