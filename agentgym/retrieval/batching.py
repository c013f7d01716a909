"""Many askers of one retriever: what waits together is searched together, and what was asked lately is remembered."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from agentgym.errors import BadConfig
from agentgym.retrieval.protocol import Hit, Retriever

_Asked = tuple[str, int]
_EACH = 10  # documents of a remembered answer, on average at most


class Busy(RuntimeError):
    """More is waiting than may wait."""


class Batches:
    """Searches for many coroutines at once: one batch at a time, of all queries that came while the last one ran.

    A batch has at most `most` queries, parted over `threads`; queries that are the same are asked once, and the last
    `cached` answers are kept, fewer where they have more than ten documents on average. At most `waiting` queries wait.
    """

    def __init__(
        self, retriever: Retriever, *, most: int = 256, threads: int = 1, cached: int = 10_000, waiting: int = 65_536
    ) -> None:
        if most < 1 or threads < 1 or cached < 0 or waiting < 1:
            raise BadConfig(
                f"batch {most}, threads {threads}, cache {cached}, waiting {waiting}; expected 1 or more, cache 0 or more"
            )
        self.retriever = retriever
        self.batches = self.searched = self.remembered = 0
        self._most, self._threads, self._cached, self._limit = most, threads, cached, waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._cache: OrderedDict[_Asked, list[Hit]] = OrderedDict()
        self._held = 0
        self._pending: dict[_Asked, asyncio.Future[list[Hit]]] = {}
        self._queue: deque[_Asked] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return what the retriever finds; what it raises; Busy where too much waits."""
        answers = [self._answer((query, count)) for query in queries]
        return [answer if isinstance(answer, list) else await asyncio.shield(answer) for answer in answers]

    def close(self) -> None:
        """Let nothing more begin."""
        if self._worker is not None:
            self._worker.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, asked: _Asked) -> "list[Hit] | asyncio.Future[list[Hit]]":
        if asked in self._cache:
            self.remembered += 1
            self._cache.move_to_end(asked)
            return self._cache[asked]
        if asked not in self._pending:
            if len(self._queue) >= self._limit:
                raise Busy(f"{len(self._queue)} queries wait already")
            self._pending[asked] = asyncio.get_running_loop().create_future()
            self._pending[asked].add_done_callback(_seen)
            self._queue.append(asked)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.ensure_future(self._work())
        return self._pending[asked]

    async def _work(self) -> None:
        while self._queue:
            batch = self._next()
            try:
                per_query = await self._search([query for query, _ in batch], batch[0][1])
                for asked, hits in zip(batch, per_query, strict=True):
                    self._pending.pop(asked).set_result(hits)
                    self._remember(asked, hits)
            except Exception as error:  # the retriever's failure is that of each who asked
                for asked in batch:
                    if asked in self._pending:
                        self._pending.pop(asked).set_exception(error)

    def _next(self) -> list[_Asked]:
        """Return the next queries that want as many documents as the first of them."""
        batch, rest = list[_Asked](), deque[_Asked]()
        while self._queue and len(batch) < self._most:
            asked = self._queue.popleft()
            (batch if not batch or asked[1] == batch[0][1] else rest).append(asked)
        self._queue.extendleft(reversed(rest))
        return batch

    async def _search(self, queries: list[str], count: int) -> list[list[Hit]]:
        self.batches += 1
        self.searched += len(queries)
        size = -(-len(queries) // self._threads)
        parts = [queries[start : start + size] for start in range(0, len(queries), size)]
        loop = asyncio.get_running_loop()
        answers = await asyncio.gather(
            *(loop.run_in_executor(self._pool, self.retriever.search, part, count) for part in parts)
        )
        return [hits for part in answers for hits in part]

    def _remember(self, asked: _Asked, hits: list[Hit]) -> None:
        if self._cached:
            self._cache[asked] = hits
            self._held += len(hits)
            while len(self._cache) > self._cached or self._held > _EACH * self._cached:
                self._held -= len(self._cache.popitem(last=False)[1])


def _seen(future: "asyncio.Future[list[Hit]]") -> None:
    """Take note of a failure, so that one whose asker has gone is not reported as forgotten."""
    if not future.cancelled():
        future.exception()
