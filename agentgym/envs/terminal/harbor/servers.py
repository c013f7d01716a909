"""MCP servers of a task: their entries in `task.toml`, and connections to them inside the agent's container.

A task reaches only addresses that its container can reach, not those of this machine: a stdio server is a program in the
container, and HTTP goes through a program that opens its connection inside the container.
"""

import asyncio
import contextlib
import importlib
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym.core.actions import Tool
from agentgym.envs.terminal.harbor import tables
from agentgym.errors import BadConfig, BadData, MissingExtra, how_to_install
from agentgym.mcp_tools.connection import Connection
from agentgym.sandbox.docker.program_stream import ProgramStream
from agentgym.sandbox.protocol import SandboxFault

CLOSING = 10.0
"""Time limit for closing connections, in seconds."""
TRANSPORTS = ("stdio", "sse", "streamable-http")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_REACH = 'exec 3<>"/dev/tcp/$1/$2" || exit; cat <&0 >&3 & cat <&3; kill $!'
"""Bash script for the container: forwards its input to a host and port, and the data from there to its output."""
_WORK = 'cd -- "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class Server:
    """One MCP server of a task, from `task.toml`."""

    name: str
    transport: str
    url: str = ""
    command: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def servers_in(environment: Mapping[str, object], file: Path) -> tuple[Server, ...]:
    """Return the servers in the table `[environment]`.

    Raises:
        BadData: two servers have the same name.
    """
    found = [_server(raw, file) for raw in tables.tables(environment, "mcp_servers", file)]
    names = [server.name for server in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise BadData(f"{file}: two MCP servers are called {twice!r}")
    return tuple(found)


def _server(raw: tables.Table, file: Path) -> Server:
    name, url = tables.text(raw, "name", file), tables.text(raw, "url", file)
    transport = tables.text(raw, "transport", file) or "sse"
    transport = "streamable-http" if transport == "http" else transport
    if not _NAME.fullmatch(name):
        raise BadData(f"{file}: an MCP server is called {name!r:.60}; expected letters, digits, '-', '_' and '.'")
    if transport not in TRANSPORTS:
        raise BadData(f"{file}: transport of MCP server {name} is {transport!r:.60}; expected {', '.join(TRANSPORTS)}")
    headers = {key: str(entry) for key, entry in tables.table(raw, "headers", file).items()}
    if transport == "stdio":
        command = tables.text(raw, "command", file)
        if not command or headers:
            raise BadData(f"{file}: MCP server {name} of stdio needs a command, and has no headers")
        return Server(name, transport, command=(command, *tables.texts(raw, "args", file)))
    host_and_port(url, name, file)
    headers = tables.resolved(headers, f"environment.mcp_servers: {name}", file)
    for key, entry in headers.items():
        if not _HEADER.fullmatch(key) or re.search(r"[\r\n]", entry):
            raise BadData(f"{file}: header {key!r:.60} of MCP server {name} is not one of HTTP")
    return Server(name, transport, url, headers=headers)


def host_and_port(url: str, name: str, file: Path) -> tuple[str, int]:
    """Return the host and port of a server's URL, as seen from inside the container.

    Raises:
        BadData: the URL is not plain HTTP with a host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or parts.username or parts.password:
        raise BadData(f"{file}: url of MCP server {name} is {url!r:.100}; expected http://HOST:PORT/PATH")
    return host, port


class Servers:
    """Connections to a task's servers, made from inside its container.

    A tool keeps its own name, with the server's name as a prefix if another tool already has that name.
    """

    def __init__(
        self, listed: Sequence[Server], sandbox: Any, user: str, work: str, file: Path, reserved: Sequence[str]
    ) -> None:
        self.tools: dict[str, Tool] = {}
        self._where: dict[str, tuple[Connection, str]] = {}
        self._open: Callable[[Sequence[str]], ProgramStream] = partial(sandbox.stream, user)
        self._connections: list[Connection] = []
        self._work, self._file = work, file
        try:
            for server in listed:
                self._connect(server, reserved)
        except BaseException:
            self.close()
            raise

    def _connect(self, server: Server, reserved: Sequence[str]) -> None:
        connection = Connection(f"MCP server {server.name!r} of the task", partial(self._client, server))
        self._connections.append(connection)
        for name, tool in connection.tools.items():
            prefix = re.sub(r"\W", "_", server.name)
            offered = f"{prefix}_{name}" if name in (*reserved, *self.tools) else name
            if offered in (*reserved, *self.tools):
                raise BadConfig(f"{connection.where} offers a tool {offered!r}, a name that another tool has already")
            self.tools[offered] = Tool(offered, tool.description, tool.parameters)
            self._where[offered] = (connection, name)

    def call(self, name: str, arguments: dict[str, object], seconds: float) -> tuple[str, bool]:
        """Call a tool; return its text, and True if the tool reports failure.

        Raises:
            TimeoutError: the call takes longer than `seconds`.
            Fault: the connection fails.
        """
        connection, own = self._where[name]
        return connection.call(own, arguments, seconds)

    def close(self) -> None:
        """Close the connections and stop the stdio servers."""
        for connection in self._connections:
            connection.close()

    def _client(self, server: Server) -> object:
        """Return the official client of a server.

        Raises:
            MissingExtra: the package mcp is not installed.
        """
        try:
            package = importlib.import_module("mcp")
        except ImportError as error:
            raise MissingExtra(f"MCP servers of tasks need the package mcp: {how_to_install('mcp')}") from error
        if server.transport == "stdio":
            words = ["/bin/bash", "-c", _WORK, "bash", self._work, *server.command]
            return package.Client(lines(partial(self._open, words)))
        return package.Client(self._over_http(server))

    @contextlib.asynccontextmanager
    async def _over_http(self, server: Server) -> AsyncGenerator[object]:
        """Yield the streams of MCP over HTTP; connections open inside the container, through a socket private to us."""
        host, port = host_and_port(server.url, server.name, self._file)
        words = ["/bin/bash", "-c", _REACH, "bash", host, str(port)]
        web = importlib.import_module("httpx2")
        with tempfile.TemporaryDirectory(prefix="agentgym-mcp-") as folder:
            place = f"{folder}/socket"
            relay = Relay(partial(self._open, words))
            async with await asyncio.start_unix_server(relay.join, place), contextlib.AsyncExitStack() as ending:
                ending.push_async_callback(relay.close)

                def client(
                    headers: Mapping[str, str] | None = None, timeout: object = None, auth: object = None
                ) -> contextlib.AbstractAsyncContextManager[object]:
                    return web.AsyncClient(
                        headers={**(headers or {}), **server.headers},
                        timeout=timeout or web.Timeout(30.0, read=300.0),
                        transport=web.AsyncHTTPTransport(uds=place),
                        auth=auth,
                    )

                if server.transport == "sse":
                    module = importlib.import_module("mcp.client.sse")
                    async with module.sse_client(server.url, httpx_client_factory=client) as streams:
                        yield streams
                else:
                    module = importlib.import_module("mcp.client.streamable_http")
                    async with client() as made, module.streamable_http_client(server.url, http_client=made) as streams:
                        yield streams


class Relay:
    """Connects each local connection to a connection that the container opens."""

    def __init__(self, open_stream: Callable[[], ProgramStream]) -> None:
        self._open = open_stream
        self._joined: dict[asyncio.Task[None], ProgramStream | None] = {}

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes in both directions until either side closes."""
        task = asyncio.current_task()
        assert task is not None
        self._joined[task] = None
        self._joined[task] = stream = await asyncio.to_thread(self._open)
        sending = asyncio.ensure_future(self._outward(reader, stream))
        try:
            while piece := await asyncio.to_thread(stream.read):
                writer.write(piece)
                await writer.drain()
        except (OSError, SandboxFault):
            pass
        finally:
            sending.cancel()
            writer.close()
            stream.close()
            del self._joined[task]

    async def _outward(self, reader: asyncio.StreamReader, stream: ProgramStream) -> None:
        with contextlib.suppress(OSError, SandboxFault):
            while piece := await reader.read(1 << 16):
                await asyncio.to_thread(stream.write, piece)
        await asyncio.to_thread(stream.close)

    async def close(self) -> None:
        """Close all connections."""
        for stream in list(self._joined.values()):
            if stream is not None:
                await asyncio.to_thread(stream.close)
        if self._joined:
            await asyncio.wait(list(self._joined), timeout=CLOSING)


@contextlib.asynccontextmanager
async def lines(open_stream: Callable[[], ProgramStream]) -> AsyncGenerator[object]:
    """Yield the streams of MCP's stdio transport (one JSON message per line) to a program in a container."""
    anyio = importlib.import_module("anyio")
    types = importlib.import_module("mcp_types")
    message = importlib.import_module("mcp.shared.message").SessionMessage
    adapter = types.jsonrpc_message_adapter
    inward, heard = anyio.create_memory_object_stream(0)
    outgoing, outward = anyio.create_memory_object_stream(0)
    stream = await asyncio.to_thread(open_stream)

    async def hear() -> None:
        rest = b""
        async with inward:
            while piece := await anyio.to_thread.run_sync(stream.read, abandon_on_cancel=True):
                *whole, rest = (rest + piece).split(b"\n")
                for line in filter(bytes.strip, whole):
                    try:
                        parsed = message(adapter.validate_json(line))
                    except ValueError as error:  # a log line, not a message
                        parsed = error
                    await inward.send(parsed)

    async def tell() -> None:
        async with outward:
            async for sent in outward:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                await asyncio.to_thread(stream.write, f"{text}\n".encode())

    async with anyio.create_task_group() as group:
        group.start_soon(hear)
        group.start_soon(tell)
        try:
            yield heard, outgoing
        finally:
            stream.close()
            group.cancel_scope.cancel()
