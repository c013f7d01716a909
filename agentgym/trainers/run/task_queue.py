"""One queue of a step's groups for all processes: each takes the next one as soon as it has room."""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from torch import distributed

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.run.rollouts import Progress, Rollouts
from agentgym.trainers.samplers.interface import Draw


class TaskQueue:
    """Deals the draws of a step to the processes of a run by a counter in the store through which torch joined them.

    A process takes a group when a place is free, so one with long episodes takes fewer. Of two steps in flight the earlier
    one is served first.
    """

    def __init__(self, rollouts: Rollouts) -> None:
        self._rollouts, self._concurrency, self._size = rollouts, rollouts.config.concurrency, rollouts.config.group_size
        store: Any = distributed.distributed_c10d._get_default_store()
        self._store = store.clone()  # a connection of its own: on the other one collectives wait
        self._places = asyncio.Semaphore(self._concurrency)
        self._turn = asyncio.Lock()

    async def collect(self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None = None) -> list[Episode]:
        """Return the episodes of the draws that this process took, in the order of the draws."""
        playing: list[asyncio.Task[list[Episode]]] = []
        try:
            while True:
                async with self._turn:
                    await self._places.acquire()
                    number = int(await asyncio.to_thread(self._store.add, f"agentgym/groups/{key}", 1)) - 1
                    if number >= len(draws):
                        self._places.release()
                        break
                    attempts = min(draws[number].attempts or self._size, self._concurrency)
                    for _ in range(attempts - 1):
                        await self._places.acquire()
                playing.append(asyncio.ensure_future(self._played(draws[number], step, attempts, progress)))
            return [episode for group in await asyncio.gather(*playing) for episode in group]
        except BaseException:
            for task in playing:
                task.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.gather(*playing, return_exceptions=True)
            raise

    async def _played(self, draw: Draw, step: int, places: int, progress: Progress | None) -> list[Episode]:
        """Play a group; each episode that ends frees its place."""
        left = places

        def ended(episode: Episode) -> None:
            nonlocal left
            if left:
                left -= 1
                self._places.release()
            if progress:
                progress(episode)

        try:
            return await self._rollouts.collect([draw], step, ended)
        finally:
            for _ in range(left):
                self._places.release()


def check_queued(draw: Draw, sampler: str) -> None:
    """Raise BadConfig for a draw that only the process which made it can play."""
    if draw.start is not None:
        raise BadConfig(
            f"task_queue with sampler {sampler!r}, which drew task {draw.task.id!r} with a start that no other process has; "
            "leave task_queue off"
        )
