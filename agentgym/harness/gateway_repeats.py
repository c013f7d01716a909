"""Decides why a third-party agent raised or timed out: a failure of the model, or an infrastructure error.

The attempt is played again with prepared replies. Control: replies that do not come from this attempt, namely those of
completed attempts, and plain ones. Repetition: the replies of the attempt itself. If a control completes and the
repetition does not, the model's replies are the cause, and the attempt is a failure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agentgym.episodes.episode import Episode
from agentgym.rollout.limits import ends_more

BY_REPLIES = "the model's replies made the agent fail twice, and other replies do not"
HARMLESS = ("ok",)
Again = Callable[[Sequence[str]], Awaitable[None]]
"""Plays the attempt's task with prepared replies and repeats the last one; exceptions of the agent propagate."""


class FaultJudge:
    """Judges the faults of third-party agents; `seconds` limits a repetition.

    The replies of completed attempts are stored, because only they are known to be harmless to the agent: many agents
    raise on any reply that is not in their format.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ran: dict[str, tuple[str, ...]] = {}

    async def judge(self, episode: Episode, task: str, again: Again) -> bool:
        """Return whether the model caused a fault; store the replies of an attempt without a fault. A session without
        an answer from the engine is no evidence about the model.
        """
        replies = tuple(turn.text for turn in episode.turns)
        if not episode.fault:
            self._ran.pop(task, None)  # so that the last one comes last
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
        except BaseException as raised:  # whatever an agent of others raises
            if ends_more(raised):
                raise
            return False
        return True
