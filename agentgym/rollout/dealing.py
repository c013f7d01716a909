"""Distribution of a step's groups over the processes of a run: in equal shares, or from a shared queue."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.rollout.slots import Slots

Progress = Callable[[Episode], None]
Play = Callable[[Sequence[Draw], int, Progress | None], Coroutine[Any, Any, list[Episode]]]
"""Plays draws for a training step (from 0) and returns their episodes."""
Playing = asyncio.Task[list[Episode]]


class Dealer(Protocol):
    """Plays this process's part of a step's draws."""

    def share(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """Return the draws that this process may play."""
        ...

    async def collect(self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None = None) -> list[Episode]:
        """Play this process's part of the draws, which are the same in all processes.

        `key` names this collection; it is equal in all processes and unique within a training session.
        """
        ...


class FixedShare:
    """Assigns an equal, fixed share of the draws to each process."""

    def __init__(self, play: Play, rank: int, processes: int) -> None:
        self._play, self._rank, self._processes = play, rank, processes

    def share(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """Return every n-th draw, starting at this process's rank; n is the number of processes."""
        return list(draws[self._rank :: self._processes])

    async def collect(self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None = None) -> list[Episode]:
        """Return the episodes of this process's share, in the order of the draws."""
        del key
        return await self._play(self.share(draws), step, progress)


class TaskQueue:
    """Distributes the draws of a step over the processes of a run with a counter in a shared store.

    A process plays at most `concurrency` episodes at a time, and takes the next group when it has free places. So a
    process with long episodes takes fewer groups. If steps overlap, earlier ones go first.
    `store.add(key, 1)` increments the counter and returns it; the call may block.
    """

    def __init__(self, play: Play, store: Any, *, concurrency: int, group_size: int, drawn_by: str) -> None:
        self._drawn_by = drawn_by
        self._play, self._store, self._concurrency, self._size = play, store, concurrency, group_size
        self._places = asyncio.Semaphore(self._concurrency)
        self._turn = Slots(1)

    def share(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """Return all draws, since nothing determines in advance which process plays a draw."""
        return draws

    async def collect(self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None = None) -> list[Episode]:
        """Return the episodes of the draws that this process took, in the order of the draws."""
        for draw in draws:
            _check(draw, self._drawn_by)
        playing: list[Playing] = []
        try:
            more = True
            while more:
                async with self._turn.acquired(step):
                    more = await self._take(draws, step, key, progress, playing)
            return [episode for group in await asyncio.gather(*playing) for episode in group]
        except BaseException:
            for task in playing:
                task.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.gather(*playing, return_exceptions=True)
            raise

    async def _take(
        self, draws: Sequence[Draw], step: int, key: str, progress: Progress | None, playing: list[Playing]
    ) -> bool:
        """Take groups and begin to play them; return False if none is left, True if an earlier step waits for places."""
        while True:
            await self._places.acquire()
            if self._turn.contended(step):
                self._places.release()
                return True
            number = int(await asyncio.to_thread(self._store.add, f"agentgym/groups/{key}", 1)) - 1
            if number >= len(draws):
                self._places.release()
                return False
            attempts = min(draws[number].attempts or self._size, self._concurrency)
            for _ in range(attempts - 1):
                await self._places.acquire()
            playing.append(asyncio.ensure_future(self._played(draws[number], step, attempts, progress)))

    async def _played(self, draw: Draw, step: int, places: int, progress: Progress | None) -> list[Episode]:
        """Play a group that occupies `places` of the places for episodes; each finished episode frees one."""
        left = places

        def ended(episode: Episode) -> None:
            nonlocal left
            if left:
                left -= 1
                self._places.release()
            if progress:
                progress(episode)

        try:
            return await self._play([draw], step, ended)
        finally:
            for _ in range(left):
                self._places.release()


def _check(draw: Draw, drawn_by: str) -> None:
    """Check that any process can play a draw.

    Raises:
        BadConfig: the draw has a start, which only one process has.
    """
    if draw.start is not None:
        raise BadConfig(
            f"task_queue with {drawn_by}, which drew task {draw.task.id!r} with a start that no other process has; leave "
            "task_queue off"
        )
