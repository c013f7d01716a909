"""The APIs that the gateway speaks. Each is a translation to and from one: the messages and tools of Chat Completions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentgym.gateway import anthropic, responses
from agentgym.gateway.choices import Answer
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.replies import ChatWriter
from agentgym.gateway.requests import GenerationRequest, Refusal
from agentgym.gateway.sessions import Session
from agentgym.gateway.telling import Piece

Raw = dict[str, object]


class Writer(Protocol):
    """Writes the answer to one request in its API's form."""

    def __init__(self, gateway: Gateway, request: GenerationRequest, raw: Raw, id: str) -> None: ...

    def whole(self, answer: Answer) -> Raw:
        """Return one JSON object."""
        ...

    def began(self, prompt: list[int]) -> bytes:
        """Return the events with which a stream begins."""
        ...

    def piece(self, piece: Piece) -> bytes:
        """Return the events of more text."""
        ...

    def end(self, answer: Answer) -> bytes:
        """Return the remaining events; the whole stream if none was written yet."""
        ...

    def failed(self, refusal: Refusal) -> bytes:
        """Return the events of an error in a stream that has begun."""
        ...


@dataclass(frozen=True, slots=True)
class Wire:
    """One API."""

    prefix: str
    """Prefix of the ids of its answers."""
    writer: type[Writer]
    read: Callable[[Raw, Session], Raw] = lambda raw, session: raw
    """Return a request in the form of Chat Completions; raises Refusal for a request without one."""
    error: Callable[[Refusal], Raw] = Refusal.body
    chat: bool = True
    keeps: bool = False
    """True if an answer is kept under its id, unless `store` says no."""


WIRES = {
    "/chat/completions": Wire("chatcmpl-", ChatWriter),
    "/completions": Wire("cmpl-", ChatWriter, chat=False),
    "/messages": Wire("msg_", anthropic.MessageWriter, anthropic.read, anthropic.error),
    "/messages/count_tokens": Wire("", anthropic.MessageWriter, anthropic.read_for_count, anthropic.error),
    "/responses": Wire("resp_", responses.ResponseWriter, responses.read, responses.error, keeps=True),
}
