"""The protocol of engines: requests, completions, and the methods that every engine has."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym.core.outcome import Finish
from agentgym.errors import BadConfig

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.episodes.usage import Usage


@dataclass(frozen=True, slots=True)
class Sampling:
    """Complete sampling settings; a model's own `generation_config` is never read."""

    temperature: float = 1.0
    """Sampling temperature: `logprobs[i] = log_softmax(logits / temperature)[id]`. With 0, sampling is greedy and
    log-probabilities are those of temperature 1. Filters and the repetition penalty are applied before the softmax, as
    in vLLM's processed log-probabilities."""
    max_tokens: int = 256
    """Maximum tokens of one completion."""
    stop_ids: tuple[int, ...] = ()
    """Ids of the tokens that end a completion; the completion includes the stop token."""
    seed: int = 0
    """Each token's random number is a function of this seed and the token's position."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def plain(self) -> bool:
        """Return True if there are no filters and no repetition penalty, as training requires."""
        return self.top_p == 1.0 and self.top_k == 0 and self.min_p == 0.0 and self.repetition_penalty == 1.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as returned by a chat server; none of its fields is trusted."""

    id: str
    name: str
    arguments: str
    """JSON as text, or any text that the model wrote in its place."""


Likeliest = tuple[list[int], list[float]]
"""(token ids, likeliest first; their log-probabilities) at one position of a text."""


@dataclass(slots=True)
class Completion:
    """An engine's answer: sampled tokens, including the stop token, with their log-probabilities."""

    ids: list[int]
    logprobs: list[float]
    finish: str
    """Reason for the end: `stop`, `length` or `abort`; from chat engines also `context` (the messages are too long),
    `filter` (the server's filter withheld the reply) and `refusal` (the model declined)."""
    policy_version: int = 0
    text: str | None = None
    """Text of the reply; set only by chat engines, which return no token ids."""
    usage: "Usage | None" = None
    """Token counts as reported by a chat engine's server; None if not reported."""
    reasoning: str = ""
    """The model's thoughts, if the server reports them separately."""
    echo: dict[str, object] = field(default_factory=dict[str, object])
    """Data to send back with the reply in later requests, as keys of the reply's message: reasoning, signatures."""
    seconds: float = field(default=0.0, compare=False)
    """Duration of the successful request to a chat engine's server, without waiting and retries."""
    calls: list[ToolCall] = field(default_factory=list["ToolCall"])
    """Tool calls that a chat engine's server parsed from the reply, in order."""
    reused: int = 0
    """Number of tokens accepted from a draft."""
    likeliest: list[Likeliest] = field(default_factory=list[Likeliest])
    """The likeliest tokens at the position of each token, if the request asked for them."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An earlier reply to exactly the same prompt; an engine reuses the beginning that its current weights accept.

    Token x, drawn with probability q(x), is accepted with probability min(1, lenience * p(x) / q(x)), where p is the current
    distribution; from the first rejected token on the engine samples.
    """

    ids: list[int]
    logprobs: list[float]
    """log q of each token, under the weights and the temperature that sampled the reply."""
    lenience: float = 1.0
    known: Sequence[Likeliest] = ()
    """The likeliest tokens at each position, with log q. If given, a token that is not among them is always rejected, and
    the first new token is drawn from the remainder of p, (p - min(q, lenience * p))+. So for a lenience up to 1 the
    reply is distributed as p. If empty, the first new token is drawn from p, and the reply is distributed approximately
    as p (docs/seams/generation.md)."""


Watch = Callable[[int, float], bool]
"""Called with every sampled token and its log-probability; if it returns True, the completion ends with that token."""


def watched(completion: Completion, watch: Watch | None) -> Completion:
    """Return the completion, cut after the first token for which `watch` returns True, with finish `stop`.

    If `watch` is None or never returns True, the completion is returned unchanged.
    """
    for place, pair in enumerate(zip(completion.ids, completion.logprobs, strict=True) if watch else (), 1):
        if watch and watch(*pair):
            return replace(completion, ids=completion.ids[:place], logprobs=completion.logprobs[:place], finish=Finish.STOP)
    return completion


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a completion."""

    prompt_ids: list[int]
    sampling: Sampling
    session: str
    """Name of the episode, by which engines find the episode's key-value cache."""
    watch: Watch | None = None
    """Called with the tokens as they are sampled (or all at once at the end, depending on the engine). It may end the
    completion at any token: finish is then `stop`."""
    images: Sequence[object] = ()
    draft: Draft | None = None
    """An earlier reply to reuse as a draft; only for engines whose kind has `drafts`."""
    likeliest: int = 0
    """Number of likeliest tokens to return at every position; only for engines whose kind has `drafts`."""

    def room(self, context: int) -> int:
        """Return the maximum tokens of a completion: the smaller of `max_tokens` and the context left after the prompt.

        The result is 0 or less if the prompt fills the context.
        """
        return min(self.sampling.max_tokens, context - len(self.prompt_ids))


class Completing(Protocol):
    """Base class of engines: a subclass implements `complete` and inherits `generate`."""

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        session: str,
        *,
        images: Sequence[object] = (),
        watch: Watch | None = None,
        draft: Draft | None = None,
        likeliest: int = 0,
    ) -> Completion:
        """Return one completion; the parameters are the fields of a `Request`, and the result is that of `complete`.

        Raises:
            BadConfig: `images` is not empty.
        """
        if images:
            raise BadConfig(f"{type(self).__name__} takes no images; use a text prompt")
        return await self.complete(Request(list(prompt_ids), sampling, session, watch, images, draft, likeliest))

    @abstractmethod
    async def complete(self, request: Request) -> Completion:
        """Return the completion of a request.

        If the prompt fills the context, the completion is empty and its finish is `length`. No completion spans two
        versions of the weights.

        Raises:
            Fault: the engine fails (`reason="engine"`).
            BadConfig: the request is invalid.
            EngineDead: the engine is permanently unavailable.
        """
        ...


@runtime_checkable
class TokenEngine(Completing, Protocol):
    """Prompt token ids in, completion ids and log-probabilities out. A custom engine inherits from this class."""

    policy_version: int
    tokenizer: Any
    """The model's tokenizer, as in transformers; None if the engine has none."""
    context: int
    """Maximum tokens of prompt and completion together."""

    @abstractmethod
    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1].

        Engines that only support temperature 1 raise BadConfig for any other.
        """
        ...

    @abstractmethod
    def abort(self, session: str) -> None:
        """End the session's requests, if any, with finish `abort`, and free the session's resources."""
        ...

    @abstractmethod
    async def pause(self) -> None:
        """Let running requests finish or abort, and start no new ones."""
        ...

    @abstractmethod
    async def resume(self) -> None:
        """Start requests again."""
        ...

    @abstractmethod
    async def load_weights(self, weights: str | Path | Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load new weights (a model folder, or named tensors), and set `policy_version` to `version`.

        Nothing cached under old weights is reused.
        """
        ...

    @abstractmethod
    def close(self) -> None:
        """Free all resources."""
        ...


@runtime_checkable
class ChatEngine(Protocol):
    """A model without token access: messages in, text out. For evaluation, never for training."""

    async def chat(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling, session: str
    ) -> Completion:
        """Return one reply. `session` names the episode; `tools` are the JSON Schemas of available functions.

        Raises:
            Fault: the engine fails (`reason="engine"`).
            BadConfig: the model does not support tools, or the server would refuse every request.
        """
        ...

    def abort(self, session: str) -> None:
        """End the session's running request, if any."""
        ...

    def close(self) -> None:
        """Free all resources."""
        ...
