"""Base of the package's ASGI applications: request bodies of limited size and time, and JSON responses."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[dict[str, object]], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[object]]
"""An ASGI application."""
_JSON = [(b"content-type", b"application/json")]


class ClientDisconnected(Exception):
    """The client has closed its connection."""


class Refusal(Exception):
    """An error response: HTTP status, message, error code, and the fault's `reason` if an environment failed."""

    def __init__(self, status: int, detail: str, code: str = "EXECUTION_ERROR", reason: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code, self.reason = status, detail, code, reason


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return a request's headers, with names in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(receive: Receive, most: int, seconds: float, refusal: Callable[[int, str], Exception]) -> bytes:
    """Return a request's body; it may have `most` bytes and take `seconds` plus one second per MiB received.

    Raises:
        ClientDisconnected: the client disconnected.
        refusal: made from status and message, if the body is too large or too slow.
    """
    content, started = bytearray(), asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(seconds) as limit:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                content += message.get("body", b"")
                if len(content) > most:
                    raise refusal(413, f"a body may have at most {most} bytes")
                if not message.get("more_body"):
                    return bytes(content)
                limit.reschedule(started + seconds + len(content) / 2**20)
    except TimeoutError:
        allowed = seconds + len(content) / 2**20
        raise refusal(408, f"the body did not arrive within {allowed:.4g} seconds") from None


async def send_json(send: Send, status: int, body: dict[str, object]) -> None:
    """Send a complete JSON response."""
    await send({"type": "http.response.start", "status": status, "headers": _JSON})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
