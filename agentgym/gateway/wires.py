"""The APIs that the gateway speaks; each is translated to and from the messages and tools of Chat Completions."""

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
    """Writes the answer to one request in the format of its API."""

    def __init__(self, gateway: Gateway, request: GenerationRequest, raw: Raw, id: str) -> None: ...

    def whole(self, answer: Answer) -> Raw:
        """Return the whole answer as one JSON object."""
        ...

    def began(self, prompt: list[int]) -> bytes:
        """Return the first events of a stream."""
        ...

    def piece(self, piece: Piece) -> bytes:
        """Return the events for a new piece of text."""
        ...

    def end(self, answer: Answer) -> bytes:
        """Return the last events, preceded by the first events if none was written yet."""
        ...

    def failed(self, refusal: Refusal) -> bytes:
        """Return the events that report an error after the stream has begun."""
        ...


@dataclass(frozen=True, slots=True)
class Wire:
    """One of the APIs: how its requests are converted and its answers written."""

    prefix: str
    """Prefix of the ids of its answers, such as `chatcmpl-`."""
    writer: type[Writer]
    read: Callable[[Raw, Session], Raw] = lambda raw, session: raw
    """Convert a request to Chat Completions. Raises Refusal if that is impossible."""
    error: Callable[[Refusal], Raw] = Refusal.body
    chat: bool = True
    keeps: bool = False
    """True if an answer is stored under its id unless the request sets `store` to false."""


WIRES = {
    "/chat/completions": Wire("chatcmpl-", ChatWriter),
    "/completions": Wire("cmpl-", ChatWriter, chat=False),
    "/messages": Wire("msg_", anthropic.MessageWriter, anthropic.read, anthropic.error),
    "/messages/count_tokens": Wire("", anthropic.MessageWriter, anthropic.read_for_count, anthropic.error),
    "/responses": Wire("resp_", responses.ResponseWriter, responses.read, responses.error, keeps=True),
}
