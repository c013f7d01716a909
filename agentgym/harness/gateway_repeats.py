"""Whose doing it is that an agent of others raised or took too long: the model's, or an infrastructure error.

The attempt is played again with prepared replies. Control: replies that hold nothing of the model's part in this attempt,
namely those of attempts that ran to their end, and plain ones. Repetition: the replies of the attempt itself. Where a
control runs to its end and the repetition does not, the model's replies did it, and the attempt is its failure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agentgym.episodes.episode import Episode
from agentgym.rollout.limits import CONTAINED, ends_more

BY_REPLIES = "the model's replies made the agent fail twice, and other replies do not"
HARMLESS = ("ok",)
Again = Callable[[Sequence[str]], Awaitable[None]]
"""Plays the attempt's task with prepared replies, the last one for ever; raises what the agent raises."""


class FaultJudge:
    """Judges the faults of agents of others; `seconds` is what a repetition may take.

    The replies of attempts that ran to their end are kept, since no others are sure to be harmless to an agent: many
    raise on any reply that is not of their form.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ran: dict[str, tuple[str, ...]] = {}

    async def judge(self, episode: Episode, task: str, again: Again) -> bool:
        """Return whether a fault is the model's doing, and keep the replies of an attempt that is none.

        A session that the engine left without an answer says nothing about the model.
        """
        replies = tuple(turn.text for turn in episode.turns)
        if not episode.fault:
            self._ran.pop(task, None)  # so that the last one comes last
            self._ran[task] = replies
            return False
        if not replies or episode.reason == "engine":
            return False
        others = [self._ran.get(task, HARMLESS), next(reversed(self._ran.values()), HARMLESS), HARMLESS]
        runs = [self._runs(again, said) for said in (replies, *dict.fromkeys(others))]
        repeated, *controls = await asyncio.gather(*runs)
        return any(controls) and not repeated

    async def _runs(self, again: Again, replies: Sequence[str]) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                await again(replies)
        except CONTAINED as raised:  # whatever an agent of others raises
            if ends_more(raised):
                raise
            return False
        return True
