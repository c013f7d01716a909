"""Replies to a request, and observers that follow each reply while it is sampled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.outcome import Finish
from agentgym.engines import Completion, Sampling, Watch
from agentgym.gateway.requests import GenerationRequest
from agentgym.gateway.telling import FirstToken, Hear, Piece, ReplyStreamer, tellable
from agentgym.gateway.tools import second_call


@dataclass(slots=True)
class Choice:
    """One of the replies to a request."""

    completion: Completion
    text: str
    calls: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Tool calls in the reply: id, name and arguments (JSON text)."""
    stopped: str | None = None
    """Stop string that ended the reply, if any."""
    rest: tuple[str, list[int], list[float]] = ("", [], [])
    """Text, token ids and log-probabilities not yet streamed to the client."""

    @property
    def finish(self) -> str:
        """Reason why the reply ended: `stop`, `length` or `tool_calls`."""
        return "tool_calls" if self.calls and self.completion.finish == Finish.STOP else self.completion.finish


@dataclass(slots=True)
class Answer:
    """Prompt and replies of one request."""

    prompt_ids: list[int]
    choices: list[Choice]
    prompt_logprobs: list[float] | None = None
    """Log-probabilities of the prompt's tokens, without the first; None unless the client asked for them."""

    @property
    def sampled(self) -> int:
        """Number of sampled tokens in all choices."""
        return sum(len(choice.completion.ids) for choice in self.choices)


def follow(
    request: GenerationRequest,
    template: ChatTemplate,
    head: str,
    samplings: Sequence[Sampling],
    prompt: list[int],
    hear: Hear | None,
) -> list[tuple[ReplyStreamer, Watch]]:
    """Return a streamer and a token observer per reply; empty if nothing is streamed and only stop tokens end replies."""
    tool_template = template if isinstance(template, ToolTemplate) and request.one_call else None
    if hear is None and not request.stops and tool_template is None:
        return []
    enough: Callable[[str], bool] | None = None
    if tool_template is not None:
        enough = partial(_second_call, tool_template, request, head)
    begun = list[FirstToken]()

    def watching(teller: ReplyStreamer) -> Watch:
        def watch(id: int, logprob: float) -> bool:
            if hear is not None and not begun:
                begun.append(FirstToken(prompt))
                hear(begun[0])
            return teller.take(id, logprob)

        return watch

    followed: list[tuple[ReplyStreamer, Watch]] = []
    for place, sampling in enumerate(samplings):
        tell = None if hear is None else partial(_tell, hear, place)
        safe = len if request.no_calls or not request.chat else partial(tellable, template)
        safe = _nothing if head or request.form else safe  # with a form, a thought may come first, which is not sent
        teller = ReplyStreamer(template.encoder.decode, sampling.stop_ids, request.stops, safe, enough, tell)
        followed.append((teller, watching(teller)))
    return followed


def _second_call(template: ToolTemplate, request: GenerationRequest, head: str, text: str) -> bool:
    return second_call(template, request.tools, head + text)


def _tell(hear: Hear, place: int, text: str, ids: list[int], logprobs: list[float]) -> None:
    hear(Piece(place, text, ids, logprobs))


def _nothing(text: str) -> int:
    return 0
