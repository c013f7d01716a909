"""An HTTP client that belongs to the event loop it is used from, and is closed with it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from agentgym.errors import MissingExtra, how_to_install

try:
    import httpx2
except ImportError as error:
    raise MissingExtra(f"talking to a server needs httpx2: {how_to_install('api')}") from error


class LoopClient:
    """Gives the running event loop's client; a later loop gets one of its own."""

    def __init__(self, timeout: float) -> None:
        """`timeout`: seconds between two bytes; to connect, at most 30."""
        self._timeout = timeout
        self._client: httpx2.AsyncClient | None = None
        self._open: AsyncGenerator[httpx2.AsyncClient] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def opened(self) -> httpx2.AsyncClient:
        """Return this event loop's client."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
            timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, 30.0), pool=None)
            client = httpx2.AsyncClient(limits=limits, timeout=timeout)
            self._client, self._loop, self._open = client, loop, _while_open(client)
            await anext(self._open)
        return self._client

    def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        held, loop, self._client, self._open, self._loop = self._open, self._loop, None, None, None
        if held is None or loop is None or loop.is_closed():  # with its loop a client was closed
            return
        if loop.is_running():  # perhaps in this very thread
            asyncio.run_coroutine_threadsafe(_ended(held), loop)
        else:
            loop.run_until_complete(_ended(held))


async def _while_open(client: httpx2.AsyncClient) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client and close it: when this is closed, which an event loop does at its own end with all that began in it."""
    try:
        yield client
    finally:
        await client.aclose()


async def _ended(held: AsyncGenerator[httpx2.AsyncClient]) -> None:
    await held.aclose()


BESIDE = 64 << 10
"""Bytes of an answer that are read for what stands beside a reply: its frame, usage, the server's own fields."""


def largest(tokens: int) -> int:
    """Return the most bytes of an answer with so many tokens' ids, log-probabilities and texts: 1 KiB for each."""
    return BESIDE + (tokens << 10)


async def received(parts: AsyncIterator[bytes], most: int) -> tuple[bytes, bool]:
    """Return the body of an answer and whether it is whole; of a longer one than `most` bytes the first ones."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > most:
            return bytes(content[:most]), False
    return bytes(content), True


def received_now(answer: httpx2.Response, most: int) -> bytes:
    """Return at most the first `most` bytes of an answer's body; blocks."""
    content = bytearray()
    for part in answer.iter_bytes():
        content += part
        if len(content) > most:
            break
    return bytes(content[:most])
