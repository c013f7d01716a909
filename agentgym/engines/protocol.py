"""The protocol of engines: requests, completions, and the methods of every engine."""

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
    """0 is greedy. `logprobs[i] = log_softmax(logits / temperature)[id]`; at 0, that of temperature 1. With filters or a
    penalty it is the log-probability after these, like vLLM's processed ones."""
    max_tokens: int = 256
    """Maximum tokens of one completion."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a completion; they are part of it."""
    seed: int = 0
    """Each token's random number is a function of this seed and its position."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def plain(self) -> bool:
        """Return True if the distribution is the model's own, which training requires."""
        return self.top_p == 1.0 and self.top_k == 0 and self.min_p == 0.0 and self.repetition_penalty == 1.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as a chat server returns it; no part of it is trusted."""

    id: str
    name: str
    arguments: str
    """JSON, or the model's text instead."""


Likeliest = tuple[list[int], list[float]]
"""(token ids, likeliest first; their log-probabilities) at one position."""


@dataclass(slots=True)
class Completion:
    """The result of an engine: sampled tokens, including the stop token, with their log-probabilities."""

    ids: list[int]
    logprobs: list[float]
    finish: str
    """`stop`, `length` or `abort`; from engines without tokens also `context`, `filter` (the server's filter withheld the
    reply) and `refusal` (the model declined)."""
    policy_version: int = 0
    text: str | None = None
    """Set only by engines without tokens."""
    usage: "Usage | None" = None
    """Tokens as counted by such an engine's server."""
    reasoning: str = ""
    """The model's thoughts, if the server reports them separately."""
    echo: dict[str, object] = field(default_factory=dict[str, object])
    """Data that the server wants back with the reply in later requests, as keys of the reply's message: reasoning,
    signatures."""
    seconds: float = field(default=0.0, compare=False)
    """Duration of the answered request, for such an engine, without waiting and retries."""
    calls: list[ToolCall] = field(default_factory=list["ToolCall"])
    """Tool calls that such an engine's server parsed from the reply, in order."""
    reused: int = 0
    """Number of tokens accepted from a draft."""
    likeliest: list[Likeliest] = field(default_factory=list[Likeliest])
    """Per token, the likeliest ones at its position, if the request asked for them."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An earlier reply to exactly the same prompt; an engine keeps the beginning that its current weights accept.

    Token x, drawn with probability q(x), is kept with probability min(1, lenience * p(x) / q(x)), where p is the current
    distribution; from the first rejected token on the engine samples.
    """

    ids: list[int]
    logprobs: list[float]
    """log q of each token, under the weights and temperature that drew it."""
    lenience: float = 1.0
    known: Sequence[Likeliest] = ()
    """Per token, further known values of q. With them, a token outside is always rejected, and the first fresh token is
    drawn from the remainder of p, (p - min(q, lenience * p))+, so that for a lenience up to 1 the reply is distributed as p.
    If empty, it is drawn from p, and the reply is approximately so distributed (docs/seams/generation.md)."""


Watch = Callable[[int, float], bool]
"""Called with every token of a completion and its log-probability, as it is sampled; True ends the completion with it."""


def watched(completion: Completion, watch: Watch | None) -> Completion:
    """Pass a finished completion to its watch, and return it up to the token at which the watch ended it."""
    for place, pair in enumerate(zip(completion.ids, completion.logprobs, strict=True) if watch else (), 1):
        if watch and watch(*pair):
            return replace(completion, ids=completion.ids[:place], logprobs=completion.logprobs[:place], finish=Finish.STOP)
    return completion


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a completion, with everything that an engine may need to know about it."""

    prompt_ids: list[int]
    sampling: Sampling
    session: str
    """Name of the episode, so that its key-value cache can be kept."""
    watch: Watch | None = None
    """Sees the tokens as they are sampled (all at once if the engine gets them so), and may end the completion at any of
    them: finish is then `stop`."""
    images: Sequence[object] = ()
    draft: Draft | None = None
    """An earlier reply as a draft; only for engines whose kind has `drafts`."""
    likeliest: int = 0
    """Number of likeliest tokens to return at every position; only for such engines."""

    def room(self, context: int) -> int:
        """Return the maximum tokens of a completion: `max_tokens`, or the rest of the context after the prompt."""
        return min(self.sampling.max_tokens, context - len(self.prompt_ids))


class Completing(Protocol):
    """Answers requests: a subclass implements `complete` and inherits `generate` for its callers."""

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
        """Return one completion; the parameters are the fields of a `Request`, see `complete`.

        Raises:
            BadConfig: `images` is not empty.
        """
        if images:
            raise BadConfig(f"{type(self).__name__} takes no images; use a text prompt")
        return await self.complete(Request(list(prompt_ids), sampling, session, watch, images, draft, likeliest))

    @abstractmethod
    async def complete(self, request: Request) -> Completion:
        """Return the completion of a request.

        A prompt that leaves no room in the context gets an empty completion with finish `length`. No completion spans two
        weight versions.

        Raises:
            Fault: the engine fails (`reason="engine"`).
        """
        ...


@runtime_checkable
class TokenEngine(Completing, Protocol):
    """Prompt ids in, completion ids and log-probabilities out; your own engine inherits from this class."""

    policy_version: int
    tokenizer: Any
    """The model's tokenizer, of the Hugging Face kind; None if the engine has none."""
    context: int
    """Maximum tokens of prompt and completion together."""

    @abstractmethod
    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]."""
        ...

    @abstractmethod
    def abort(self, session: str) -> None:
        """End the session's request, if one is running, and free its resources."""
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
        """Load new weights (a model folder, or named tensors); nothing cached under old ones is reused."""
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
        """Return one reply; `session` names the episode, `tools` are JSON Schemas of functions that it may call.

        Raises:
            Fault: the engine fails (`reason="engine"`).
            BadConfig: the model does not support tools.
        """
        ...

    def abort(self, session: str) -> None:
        """End the session's request, if one is running."""
        ...

    def close(self) -> None:
        """Free all resources."""
        ...
