"""An HTTP client bound to the running event loop and closed with it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from agentgym.errors import MissingExtra, how_to_install

try:
    import httpx2
except ImportError as error:
    raise MissingExtra(f"talking to a server needs httpx2: {how_to_install('api')}") from error


class LoopClient:
    """Provides an HTTP client for the running event loop; a call from another event loop opens a new client."""

    def __init__(self, timeout: float) -> None:
        """Set the maximum seconds between two received bytes. Connecting may take as long, but at most 30 seconds."""
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
        generator, loop, self._client, self._open, self._loop = self._open, self._loop, None, None, None
        if generator is None or loop is None or loop.is_closed():  # the client was closed with its loop
            return
        if loop.is_running():  # possibly in this thread
            asyncio.run_coroutine_threadsafe(_ended(generator), loop)
        else:
            loop.run_until_complete(_ended(generator))


async def _while_open(client: httpx2.AsyncClient) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield a client and close it afterwards. The event loop closes this generator when the loop shuts down."""
    try:
        yield client
    finally:
        await client.aclose()


async def _ended(generator: AsyncGenerator[httpx2.AsyncClient]) -> None:
    await generator.aclose()


BESIDE = 64 << 10
"""Maximum bytes of an answer beyond the completion itself: JSON structure, usage, server-specific fields."""


def largest(tokens: int) -> int:
    """Return the maximum bytes of an answer with ids, log-probabilities and texts: `BESIDE`, plus 1 KiB per token."""
    return BESIDE + (tokens << 10)


async def received(parts: AsyncIterator[bytes], most: int) -> tuple[bytes, bool]:
    """Return the first `most` bytes of an answer's body, and True if these are the whole body."""
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
