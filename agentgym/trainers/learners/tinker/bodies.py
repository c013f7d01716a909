"""Limit on the size of a server's answers: the client package has no public option for a limit."""

# tinker is an extra and typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx

LARGEST = 256 << 20
"""Maximum bytes of one answer; the client splits large requests, so real answers have a few megabytes."""


class _Body(httpx.AsyncByteStream):
    """A response body that fails after `LARGEST` bytes."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._body:
            read += len(part)
            if read > LARGEST:
                raise httpx.ReadError(f"an answer of more than {LARGEST} bytes")
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":  # unpacked, it has any size
        raise httpx.RemoteProtocolError("the server packed an answer, which was not allowed", request=response.request)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Body(response.stream)


def bound_answers() -> None:
    """Limit the answers on all connections that the client package opens from now on.

    It replaces the client's connection class, a private name of versions 0.25 to 0.38; without that name it does
    nothing.
    """
    package = importlib.import_module("tinker._base_client")
    opened: Any = getattr(package, "AsyncHttpxClientWrapper", None)
    if opened is None or isinstance(opened, partial):  # or done already
        return
    options = {"headers": {"Accept-Encoding": "identity"}, "event_hooks": {"response": [_bound]}}
    package.AsyncHttpxClientWrapper = partial(opened, **options)  # type: ignore[attr-defined]
