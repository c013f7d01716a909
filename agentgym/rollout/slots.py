"""A semaphore with priorities."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from heapq import heappop, heappush


class Slots:
    """A number of slots. A free slot goes to the lowest rank that waits, and then to the earliest arrival."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def acquired(self, rank: int) -> AsyncGenerator[None]:
        """Wait for a slot and occupy it during the block."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(rank)
        try:
            yield
        finally:
            self._give()

    async def _turn(self, rank: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came at the same moment
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():  # else the waiter was cancelled
                turn.set_result(None)
                return
        self._free += 1

    def contended(self, rank: int) -> bool:
        """Return True if a lower rank waits for a slot."""
        return bool(self._waiting) and self._waiting[0][0] < rank
