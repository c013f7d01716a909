"""The text of a reply during sampling: the part that can already be streamed, and the place where a stop string ends
it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentgym.agents.parse import split_thought
from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_calls import FAMILIES
from agentgym.agents.tool_template import ToolTemplate

OPENERS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=")
"""Possible beginnings of a call."""
_OPENER = re.compile("|".join(map(re.escape, OPENERS)))
_UNFINISHED = "\ufffd"  # what a tokenizer writes for bytes that begin a character


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first token of a reply was sampled."""

    prompt_tokens: list[int]


@dataclass(frozen=True, slots=True)
class Piece:
    """More of a reply: text, and the tokens sampled since the last piece."""

    index: int
    """Index of the choice."""
    text: str
    ids: list[int]
    logprobs: list[float]


Hear = Callable[[FirstToken | Piece], None]


@dataclass(slots=True)
class ReplyStreamer:
    """Takes the tokens of one reply, streams the text that is final, and ends it at a stop string.

    `tellable` returns the number of characters of a partial text that later tokens cannot turn into a call; `enough`,
    whether it is a whole reply.
    """

    decode: Callable[[Sequence[int]], str]
    stop_ids: Sequence[int]
    stops: Sequence[str] = ()
    tellable: Callable[[str], int] = len
    enough: Callable[[str], bool] | None = None
    hear: Callable[[str, list[int], list[float]], None] | None = None
    text: str = ""
    """Text sampled so far, without bytes that may still become another character; cut before a stop string."""
    stopped: str | None = None
    """The stop string that ended the reply."""
    sent_chars: int = 0
    """Number of the text's characters sent."""
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    _start: int = 0  # of the tokens that are decoded together with new ones
    _read: int = 0  # up to where tokens are in the text
    _sent: int = 0  # up to where they were told

    def take(self, id: int, logprob: float) -> bool:
        """Take a token; return True if the reply ends with it. See `engines.Watch`."""
        self.ids.append(id)
        self.logprobs.append(logprob)
        if id not in self.stop_ids and self._grow(self._decoded(len(self.ids))):
            return True
        self._tell(min(self.tellable(self.text), len(self.text) - self._begun_stop()))
        return self.enough is not None and self.enough(self.text)

    def end(self) -> str:
        """Return the whole text, once the reply has ended."""
        if self.stopped is None:
            last = len(self.ids) - (1 if self.ids and self.ids[-1] in self.stop_ids else 0)
            self._grow(self._decoded(last, whole=True))
        return self.text

    def _decoded(self, end: int, whole: bool = False) -> str:
        """Return the text that tokens up to `end` add: decoded with those before, since some tokenizers join them."""
        before = self.decode(self.ids[self._start : self._read])
        after = self.decode(self.ids[self._start : end])
        if not whole and (len(after) <= len(before) or after.endswith(_UNFINISHED)):
            return ""
        self._start, self._read = self._read, end
        return after[len(before) :]

    def _grow(self, added: str) -> bool:
        """Add text; whether it completes a stop string."""
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
        """Return the part of a reply with the text `text` that was not yet streamed: text, tokens and
        log-probabilities.
        """
        return text[self.sent_chars :], self.ids[self._sent :], self.logprobs[self._sent :]


def _begun(text: str, string: str) -> int:
    """Return how many characters at the end of a text may become the string."""
    place = max(len(text) - len(string) + 1, 0)
    while (place := text.find(string[0], place)) >= 0:  # asked after every token: most texts hold no such character
        if string.startswith(text[place:]):
            return len(text) - place
        place += 1
    return 0


def tellable(template: ChatTemplate, text: str) -> int:
    """Return the length of a partial reply's final text; a call or a family's header may follow it."""
    header = template.prefix.strip()
    if header and "</think>" not in header:
        return 0
    if not isinstance(template, ToolTemplate):
        return len(text)
    opener = _OPENER.search(text)
    end = opener.start() if opener else len(text) - max(_begun(text, string) for string in OPENERS)
    if template.family is FAMILIES["llama3"]:  # its calls begin as JSON does
        _, unfinished, rest = split_thought(text, bool(template.opened))
        if not unfinished and rest.startswith("{"):
            end = min(end, text.rindex(rest))
    return len(text[:end].rstrip())
