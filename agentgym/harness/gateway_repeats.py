"""Decides why a third-party agent raised or timed out: a failure of the model, or an infrastructure error.

The attempt is played again with prepared replies. In a control run they come from completed attempts or are plain text; in
the repetition they are the attempt's own. If a control run completes and the repetition does not, the model's replies are
the cause, and the attempt is a failure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agentgym.episodes.episode import Episode
from agentgym.rollout.limits import ends_more

BY_REPLIES = "the model's replies made the agent fail twice, and other replies do not"
HARMLESS = ("ok",)
Again = Callable[[Sequence[str]], Awaitable[None]]
"""Function that plays the attempt's task with prepared replies, the last one repeated; exceptions of the agent propagate."""


class FaultJudge:
    """Judges faults of third-party agents by playing attempts again, each for at most `seconds`.

    The replies of completed attempts are stored, because only they are known to be harmless: many agents raise on any reply
    that is not in their format.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ran: dict[str, tuple[str, ...]] = {}

    async def judge(self, episode: Episode, task: str, again: Again) -> bool:
        """Return True if the model caused the episode's fault; store the replies of an episode without a fault.

        Without any reply from the engine, the model cannot be the cause.
        """
        replies = tuple(turn.text for turn in episode.turns)
        if not episode.fault:
            self._ran.pop(task, None)  # keep the newest last
            self._ran[task] = replies
            return False
        if not replies or episode.reason == "engine":
            return False
        others = [self._ran.get(task, HARMLESS), next(reversed(self._ran.values()), HARMLESS), HARMLESS]
        runs = [self._runs(again, reply) for reply in (replies, *dict.fromkeys(others))]
        repeated, *controls = await asyncio.gather(*runs)
        return any(controls) and not repeated

    async def _runs(self, again: Again, replies: Sequence[str]) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                await again(replies)
        except BaseException as raised:  # a third-party agent may raise anything
            if ends_more(raised):
                raise
            return False
        return True
