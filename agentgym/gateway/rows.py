"""A row of turns that extend one another; each token is stored once, however many turns repeat it."""

import dataclasses
from array import array
from collections.abc import Sequence

from agentgym.engines.slots import common_prefix
from agentgym.episodes.episode import Turn

LARGEST_ID = 2**31 - 1
"""Largest token id that a row can store."""


class Row:
    """Turns whose prompts repeat every token before them."""

    __slots__ = ("_logprobs", "_turns", "ids", "last_reply", "tools")

    def __init__(self, tools: str = "") -> None:
        self.ids = array("i")
        """Every token so far."""
        self.tools = tools
        """Names the tools that its first request offered."""
        self.last_reply = 0
        """Which reply of the session its last one is."""
        self._logprobs = array("d")
        self._turns: list[tuple[int, int, Turn]] = []  # where prompt and reply end, and the turn without its tokens

    def append(self, turn: Turn, prompt: "array[int]") -> int:
        """Append a turn whose prompt repeats the row's tokens; return the number of tokens that it adds."""
        before, start = len(self.ids), len(prompt)
        self.ids.extend(prompt[before:])
        self.ids.extend(array("i", turn.output_ids))
        self._logprobs.extend(turn.logprobs)
        bare = dataclasses.replace(turn, prompt_ids=[], output_ids=[], logprobs=[])
        self._turns.append((start, len(self.ids), bare))
        return len(self.ids) - before

    def mark_side(self, *, trained: bool) -> None:
        """Mark every turn as a call outside the main conversation."""
        for _, _, turn in self._turns:
            turn.extra["side"] = True
            if not trained:
                turn.extra["train"] = False

    def turns(self) -> list[Turn]:
        """Return the turns with their tokens."""
        turns: list[Turn] = []
        sampled = 0
        for start, end, turn in self._turns:
            logprobs = self._logprobs[sampled : sampled + end - start].tolist()
            sampled += end - start
            prompt, output = self.ids[:start].tolist(), self.ids[start:end].tolist()
            turns.append(dataclasses.replace(turn, prompt_ids=prompt, output_ids=output, logprobs=logprobs))
        return turns

    def begins(self, prompt: Sequence[int]) -> bool:
        """Return whether a prompt repeats every token of the row."""
        return len(prompt) >= len(self.ids) and common_prefix(prompt, self.ids) == len(self.ids)

    @property
    def last(self) -> Turn:
        """The last turn, without its tokens; changes to it are stored."""
        return self._turns[-1][2]

    @property
    def output_tokens(self) -> int:
        """Number of sampled tokens."""
        return len(self._logprobs)

    def __len__(self) -> int:
        return len(self._turns)
