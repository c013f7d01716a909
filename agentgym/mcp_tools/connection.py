"""Connection to an MCP server, in a separate thread; the package `mcp` implements the protocol."""

import asyncio
import importlib
import inspect
import re
import shlex
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from agentgym.core.actions import Tool
from agentgym.errors import BadConfig, Fault, MissingExtra, Reason, how_to_install
from agentgym.mcp_tools.bounds import ENCODING, LARGEST, TOO_MUCH

PREFIX = "mcp:"
START_SECONDS = 60.0
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")
_LONGEST = 20_000  # maximum characters of a description or schema
_MOST_TOOLS = 128


REFUSED = (-32600, -32601, -32602)
"""JSON-RPC error codes of a wrong request, such as an unknown tool or invalid arguments."""
TOO_LONG = f"it sent a message of more than {LARGEST >> 20} MiB"
CLOSED = (-32000, "Connection closed")
"""Code and message of the package `mcp` for a closed connection; a server's own errors may have the same code."""


class ServerError(Fault):
    """The server answered a call with an error that is not about the request; it can still answer other calls."""


class Connection:
    """Connection to a server that a command starts (`mcp:python server.py`), or to an address (`mcp:http://HOST/mcp`).

    The server's messages are untrusted: tools with malformed names or overlong descriptions are refused, a message of more
    than `LARGEST` bytes ends the connection, and callers cut results. The command runs without a shell and outside any
    sandbox, with a minimal environment (PATH, HOME, …).
    """

    def __init__(self, where: str, client: Callable[[], Any] | None = None) -> None:
        """Connect to the server `where`; if `client` is given, it makes the client, and `where` is only a name for messages.

        Raises:
            Fault: the server cannot be used or does not answer within START_SECONDS.
        """
        self.where = where
        self._client_of = client or partial(target, where)
        self.tools: dict[str, Tool] = {}
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._flooded = asyncio.Event()
        self._up: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        try:
            self._up.result(START_SECONDS)
        except TimeoutError:
            self._loop.call_soon_threadsafe(self._served.cancel)
            raise Fault(f"{where} did not answer within {START_SECONDS:g} s", reason=Reason.TIMEOUT) from None

    def call(self, name: str, arguments: dict[str, object], seconds: float) -> tuple[str, bool]:
        """Call a tool; return the text of its result, and True if the result is an error.

        Raises:
            TimeoutError: the call took longer than `seconds`.
            ServerError: the server itself answered with an error.
            Fault: the call failed otherwise.
        """
        future = asyncio.run_coroutine_threadsafe(self._call(name, arguments, seconds), self._loop)
        try:
            return future.result(seconds + 10)
        except TimeoutError:
            future.cancel()
            raise
        except ServerError:
            raise
        except Exception as error:
            code = getattr(error, "code", None)  # the package's MCPError has one
            if code in REFUSED:
                return f"{str(error)[:_LONGEST]}".encode("utf-8", "replace").decode(), True
            # The package raises RuntimeError for a result that does not fit the tool's own output schema.
            answered = isinstance(error, RuntimeError) if code is None else (code, str(error)) != CLOSED
            kind = ServerError if answered else Fault
            raise kind(f"{self.where} failed in {name}: {str(error)[:300]}") from error

    def close(self) -> None:
        """Close the connection, and stop the server if a command started it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(15)

    def _run(self) -> None:
        self._served = self._loop.create_task(self._serve())
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._served)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        TOO_MUCH.set(self._flood)
        try:
            async with self._client_of() as client:
                self.tools = _checked((await client.list_tools()).tools, self.where)
                self._client = client
                self._up.set_result(None)
                await self._stop.wait()
        except BaseException as error:  # a group of errors, if the package's tasks failed
            if not self._up.done():
                known = isinstance(error, (BadConfig, MissingExtra))
                self._up.set_exception(error if known else Fault(f"{self.where} cannot be used: {str(error)[:300]}"))

    def _flood(self) -> None:
        """Fail the requests that wait for an overlong message, because the message is discarded."""
        self._flooded.set()
        if not self._up.done():
            self._up.set_exception(Fault(f"{self.where} cannot be used: {TOO_LONG}"))
            self._served.cancel()

    async def _call(self, name: str, arguments: dict[str, object], seconds: float) -> tuple[str, bool]:
        called: asyncio.Task[Any] = asyncio.ensure_future(self._client.call_tool(name, arguments))
        flooded = asyncio.ensure_future(self._flooded.wait())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((called, flooded), return_when=asyncio.FIRST_COMPLETED)
            if self._flooded.is_set():
                raise ServerError(f"{self.where} failed in {name}: {TOO_LONG}")
            result = called.result()
        finally:
            called.cancel()
            flooded.cancel()
        return "\n".join(map(_text, result.content)).encode("utf-8", "replace").decode(), bool(result.is_error)


def _text(part: Any) -> str:
    return part.text if isinstance(getattr(part, "text", None), str) else f"[{getattr(part, 'type', 'content')} left out]"


def target(where: str) -> Any:
    """Return a client of the package `mcp` for a server.

    Raises:
        BadConfig: `where` is neither `mcp:COMMAND` nor `mcp:http://HOST/mcp`.
        MissingExtra: the package mcp is not installed.
    """
    try:
        client = importlib.import_module("mcp")
        stdio = importlib.import_module("mcp.client.stdio")
    except ImportError as error:
        raise MissingExtra(f"tools of MCP servers need the package mcp: {how_to_install('mcp')}") from error
    rest = where.removeprefix(PREFIX)
    if not where.startswith(PREFIX) or not rest.strip():
        raise BadConfig(f"tool_server is {where!r:.80}; expected 'mcp:COMMAND' or 'mcp:http://HOST/mcp'")
    if rest.startswith(("http://", "https://")):
        return client.Client(_streamed(rest))
    command, *arguments = shlex.split(rest)
    return client.Client(stdio.stdio_client(stdio.StdioServerParameters(command=command, args=arguments, encoding=ENCODING)))


@asynccontextmanager
async def _streamed(address: str) -> AsyncGenerator[Any]:
    bodies = importlib.import_module("agentgym.mcp_tools.bodies")
    http = importlib.import_module("mcp.client.streamable_http")
    opened = http.streamable_http_client
    limit = (
        {"max_sse_event_size": None} if "max_sse_event_size" in inspect.signature(opened).parameters else {}
    )  # our own limit gives a better error
    async with bodies.client(TOO_MUCH.get()) as client, opened(address, http_client=client, **limit) as streams:
        yield streams


def _checked(listed: list[Any], where: str) -> dict[str, Tool]:
    """Check the tools that a server lists, and return them by name.

    Raises:
        BadConfig: there are no tools or too many, or a name, schema or description is not acceptable.
    """
    tools: dict[str, Tool] = {}
    for offered in listed:
        name, schema = str(offered.name), dict(offered.input_schema)
        if not _NAME.fullmatch(name) or len(str(schema)) > _LONGEST or len(offered.description or "") > _LONGEST:
            raise BadConfig(
                f"{where} offers a tool {name[:60]!r} that cannot be offered: its name, schema or description is odd"
            )
        tools[name] = Tool(name, " ".join((offered.description or "").split()), {"properties": {}, "required": [], **schema})
    if not tools or len(tools) > _MOST_TOOLS:
        raise BadConfig(f"{where} offers {len(tools)} tools; expected 1 to {_MOST_TOOLS}")
    return tools
