"""Batching for concurrent clients of one retriever: waiting queries are searched together, recent answers are cached."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from agentgym.errors import BadConfig
from agentgym.retrieval.protocol import Hit, Retriever

_Query = tuple[str, int]
_EACH = 10  # maximum average number of documents per cached answer


class QueueFull(RuntimeError):
    """The queue of waiting queries is full."""


class Batches:
    """Searches for many coroutines in batches: a batch has the queries that arrived while the previous batch ran.

    A batch has at most `most` queries, all for the same number of documents, split over `threads`; equal queries are
    searched once. The cache has the `cached` answers used last, or fewer if they have more than ten documents on average.
    At most `waiting` queries wait.
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
        self._cache: OrderedDict[_Query, list[Hit]] = OrderedDict()
        self._cached_hits = 0
        self._pending: dict[_Query, asyncio.Future[list[Hit]]] = {}
        self._queue: deque[_Query] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the retriever's results or raise its exception; raise QueueFull if too many queries wait."""
        answers = [self._answer((query, count)) for query in queries]
        return [answer if isinstance(answer, list) else await asyncio.shield(answer) for answer in answers]

    def close(self) -> None:
        """Stop searching: waiting queries fail, and so do later ones unless their answers are cached."""
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None
        for answer in self._pending.values():
            if not answer.get_loop().is_closed():
                answer.set_exception(RuntimeError("the retriever was closed before it answered"))
        self._pending.clear()
        self._queue.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, query: _Query) -> "list[Hit] | asyncio.Future[list[Hit]]":
        if query in self._cache:
            self.remembered += 1
            self._cache.move_to_end(query)
            return self._cache[query]
        if query not in self._pending:
            if len(self._queue) >= self._limit:
                raise QueueFull(f"{len(self._queue)} queries wait already")
            self._pending[query] = asyncio.get_running_loop().create_future()
            self._pending[query].add_done_callback(_seen)
            self._queue.append(query)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.ensure_future(self._work())
        return self._pending[query]

    async def _work(self) -> None:
        while self._queue:
            batch = self._next()
            try:
                per_query = await self._search([query for query, _ in batch], batch[0][1])
                for waiting, hits in zip(batch, per_query, strict=True):
                    self._pending.pop(waiting).set_result(hits)
                    self._remember(waiting, hits)
            except Exception as error:  # pass the retriever's error to every waiting caller
                for waiting in batch:
                    if waiting in self._pending:
                        self._pending.pop(waiting).set_exception(error)

    def _next(self) -> list[_Query]:
        """Take up to `most` queries from the queue: those that ask for as many documents as the first query."""
        batch, rest = list[_Query](), deque[_Query]()
        while self._queue and len(batch) < self._most:
            query = self._queue.popleft()
            (batch if not batch or query[1] == batch[0][1] else rest).append(query)
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

    def _remember(self, query: _Query, hits: list[Hit]) -> None:
        if self._cached:
            self._cache[query] = hits
            self._cached_hits += len(hits)
            while len(self._cache) > self._cached or self._cached_hits > _EACH * self._cached:
                self._cached_hits -= len(self._cache.popitem(last=False)[1])


def _seen(future: "asyncio.Future[list[Hit]]") -> None:
    """Retrieve a future's exception even if no caller is left, so that asyncio does not log it as never retrieved."""
    if not future.cancelled():
        future.exception()
