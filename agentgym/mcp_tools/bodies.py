"""HTTP client that limits the size of a server's responses, which the package `mcp` does not."""

from collections.abc import AsyncIterator, Callable

import httpx2

from agentgym.mcp_tools.bounds import LARGEST

TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""Timeouts in seconds, like those of the client in the package `mcp`: a server may keep a stream open."""


class _Body(httpx2.AsyncByteStream):
    """A response body that raises after `LARGEST` bytes."""

    def __init__(self, body: httpx2.AsyncByteStream, too_much: Callable[[], None]) -> None:
        self._body, self._too_much = body, too_much

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._body:
            read += len(part)
            if read > LARGEST:
                self._too_much()
                raise httpx2.StreamError(f"an answer of more than {LARGEST} bytes")
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


def client(too_much: Callable[[], None]) -> httpx2.AsyncClient:
    """Return a client for one connection, to be closed by the caller; `too_much` is called if a response is too long."""

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":  # its size would be unbounded
            raise httpx2.RemoteProtocolError("the server packed an answer, which was not allowed", request=response.request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Body(response.stream, too_much)

    return httpx2.AsyncClient(headers={"Accept-Encoding": "identity"}, timeout=TIMEOUT, event_hooks={"response": [bound]})
