"""Streaming of a reply during sampling: finds the text that is already final, and the stop string that ends the reply."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentgym.agents.parse import split_thought
from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_calls import FAMILIES
from agentgym.agents.tool_template import ToolTemplate

OPENERS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=")
"""Strings that may begin a tool call."""
_OPENER = re.compile("|".join(map(re.escape, OPENERS)))
_UNFINISHED = "\ufffd"  # a tokenizer's output for an incomplete character


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Event: the first token of a reply was sampled."""

    prompt_tokens: list[int]


@dataclass(frozen=True, slots=True)
class Piece:
    """Event: more text of a reply, with the tokens sampled since the last piece."""

    index: int
    """Number of the reply, from 0."""
    text: str
    ids: list[int]
    logprobs: list[float]


Hear = Callable[[FirstToken | Piece], None]


@dataclass(slots=True)
class ReplyStreamer:
    """Receives the tokens of one reply, streams text once it is final, and ends the reply at a stop string.

    `tellable` returns how many characters of a partial text are final: later tokens cannot turn them into a tool call.
    `enough` returns True if a partial text is a whole reply.
    """

    decode: Callable[[Sequence[int]], str]
    stop_ids: Sequence[int]
    stops: Sequence[str] = ()
    tellable: Callable[[str], int] = len
    enough: Callable[[str], bool] | None = None
    hear: Callable[[str, list[int], list[float]], None] | None = None
    text: str = ""
    """Text so far: without an incomplete last character, and cut before the stop string."""
    stopped: str | None = None
    """Stop string that ended the reply, if any."""
    sent_chars: int = 0
    """Number of characters streamed so far."""
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    _start: int = 0  # first of the tokens that are decoded together with new ones
    _read: int = 0  # number of tokens whose text is in `text`
    _sent: int = 0  # number of tokens sent to `hear`

    def take(self, id: int, logprob: float) -> bool:
        """Add a sampled token; return True if the reply ends with it (see `engines.Watch`)."""
        self.ids.append(id)
        self.logprobs.append(logprob)
        if id not in self.stop_ids and self._grow(self._decoded(len(self.ids))):
            return True
        self._tell(min(self.tellable(self.text), len(self.text) - self._begun_stop()))
        return self.enough is not None and self.enough(self.text)

    def end(self) -> str:
        """Return the whole text after the reply has ended."""
        if self.stopped is None:
            last = len(self.ids) - (1 if self.ids and self.ids[-1] in self.stop_ids else 0)
            self._grow(self._decoded(last, whole=True))
        return self.text

    def _decoded(self, end: int, whole: bool = False) -> str:
        """Return the text of the new tokens before `end`; empty if their last character is incomplete, unless `whole`.

        They are decoded together with the tokens before, because some tokenizers join them.
        """
        before = self.decode(self.ids[self._start : self._read])
        after = self.decode(self.ids[self._start : end])
        if not whole and (len(after) <= len(before) or after.endswith(_UNFINISHED)):
            return ""
        self._start, self._read = self._read, end
        return after[len(before) :]

    def _grow(self, added: str) -> bool:
        """Add text; return True if it completes a stop string."""
        longest = max(map(len, self.stops), default=0)
        searched = max(len(self.text) - longest + 1, 0)
        self.text += added
        ends = [(place, stop) for stop in self.stops if (place := self.text.find(stop, searched)) >= 0]
        if not ends:
            return False
        place, self.stopped = min(ends)
        self.text = self.text[:place]
        return True

    def _begun_stop(self) -> int:
        return max((_begun(self.text, stop) for stop in self.stops), default=0)

    def _tell(self, end: int) -> None:
        if self.hear is not None and end > self.sent_chars:
            self.hear(self.text[self.sent_chars : end], self.ids[self._sent :], self.logprobs[self._sent :])
            self.sent_chars, self._sent = end, len(self.ids)

    def rest(self, text: str) -> tuple[str, list[int], list[float]]:
        """Return the part of the final text that was not streamed yet, with its token ids and log-probabilities."""
        return text[self.sent_chars :], self.ids[self._sent :], self.logprobs[self._sent :]


def _begun(text: str, string: str) -> int:
    """Return the number of characters at the end of `text` that are a beginning of `string`."""
    place = max(len(text) - len(string) + 1, 0)
    while (place := text.find(string[0], place)) >= 0:  # this runs after every token; most texts lack the character
        if string.startswith(text[place:]):
            return len(text) - place
        place += 1
    return 0


def tellable(template: ChatTemplate, text: str) -> int:
    """Return the number of characters of a partial reply that can no longer become part of a tool call or a header."""
    header = template.prefix.strip()
    if header and "</think>" not in header:
        return 0
    if not isinstance(template, ToolTemplate):
        return len(text)
    opener = _OPENER.search(text)
    end = opener.start() if opener else len(text) - max(_begun(text, string) for string in OPENERS)
    if template.family is FAMILIES["llama3"]:  # its calls begin like JSON
        _, unfinished, rest = split_thought(text, bool(template.opened))
        if not unfinished and rest.startswith("{"):
            end = min(end, text.rindex(rest))
    return len(text[:end].rstrip())
