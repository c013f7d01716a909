"""Rows: sequences of turns in which each prompt extends the tokens of the turns before. A row stores each token once."""

import dataclasses
from array import array
from collections.abc import Sequence

from agentgym.engines.slots import common_prefix
from agentgym.episodes.episode import Turn

LARGEST_ID = 2**31 - 1
"""Largest token id that a row can store."""


class Row:
    """Turns in which each prompt begins with all tokens of the turns before."""

    __slots__ = ("_logprobs", "_turns", "ids", "last_reply", "tools")

    def __init__(self, tools: str = "") -> None:
        self.ids = array("i")
        """All token ids of the row so far."""
        self.tools = tools
        """Key of the tools that the row's first request offered."""
        self.last_reply = 0
        """Number of the row's newest reply, counted over the session."""
        self._logprobs = array("d")
        self._turns: list[tuple[int, int, Turn]] = []  # (end of prompt, end of reply, turn without its tokens)

    def append(self, turn: Turn, prompt: "array[int]") -> int:
        """Append a turn, whose `prompt` begins with the row's tokens; return the number of tokens added."""
        before, start = len(self.ids), len(prompt)
        self.ids.extend(prompt[before:])
        self.ids.extend(array("i", turn.output_ids))
        self._logprobs.extend(turn.logprobs)
        bare = dataclasses.replace(turn, prompt_ids=[], output_ids=[], logprobs=[])
        self._turns.append((start, len(self.ids), bare))
        return len(self.ids) - before

    def mark_side(self, *, trained: bool) -> None:
        """Mark every turn as outside the main conversation; unless `trained`, exclude it from training."""
        for _, _, turn in self._turns:
            turn.extra["side"] = True
            if not trained:
                turn.extra["train"] = False

    def turns(self) -> list[Turn]:
        """Return the turns, each with its full prompt and its sampled tokens."""
        turns: list[Turn] = []
        sampled = 0
        for start, end, turn in self._turns:
            logprobs = self._logprobs[sampled : sampled + end - start].tolist()
            sampled += end - start
            prompt, output = self.ids[:start].tolist(), self.ids[start:end].tolist()
            turns.append(dataclasses.replace(turn, prompt_ids=prompt, output_ids=output, logprobs=logprobs))
        return turns

    def begins(self, prompt: Sequence[int]) -> bool:
        """Return True if a prompt begins with all tokens of the row."""
        return len(prompt) >= len(self.ids) and common_prefix(prompt, self.ids) == len(self.ids)

    @property
    def last(self) -> Turn:
        """The newest turn, without its tokens; the row stores changes to it."""
        return self._turns[-1][2]

    @property
    def output_tokens(self) -> int:
        """Number of sampled tokens in the row."""
        return len(self._logprobs)

    def __len__(self) -> int:
        return len(self._turns)
