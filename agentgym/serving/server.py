"""Run an application with uvicorn: on one address, without log output, until Ctrl-C or the caller stops it."""

import asyncio
import contextlib
import importlib
import ipaddress
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentgym.errors import MissingExtra, how_to_install
from agentgym.serving.asgi import ASGI
from agentgym.serving.connections import MOST, READ_SECONDS, REQUEST_SECONDS, Connections

if TYPE_CHECKING:
    from uvicorn import Server

_WAITING = 1024  # connections
_IDLE = 600  # seconds; agents' commands take long, and closing a connection just as it is reused would fail the attempt
_GRACE = 5  # seconds that running requests get when the server ends


@contextlib.contextmanager
def terminated_as_interrupted() -> Generator[None]:
    """Treat SIGTERM, which service managers and containers send, like Ctrl-C during the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def serve(
    app: ASGI,
    host: str,
    port: int,
    ready: Callable[[str], None],
    stop: asyncio.Event | None = None,
    *,
    most: int = MOST,
    seconds: float = REQUEST_SECONDS,
    read_seconds: float = READ_SECONDS,
    **settings: object,
) -> None:
    """Serve until Ctrl-C, or until `stop` is set; `ready` receives the address once it is bound.

    `most`, `seconds` and `read_seconds` limit connections (see `Connections`). `settings` are passed to uvicorn.

    Raises:
        OSError: the address cannot be bound.
        MissingExtra: uvicorn is not installed.
    """
    try:
        uvicorn = importlib.import_module("uvicorn")
    except ImportError as error:
        raise MissingExtra(f"serving needs uvicorn: {how_to_install('serve')}") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:  # named, or asyncio leaves Nagle's delay on
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_WAITING)  # so that clients can connect as soon as they know the address
        ours: dict[str, object] = {
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "timeout_graceful_shutdown": _GRACE,
            "timeout_keep_alive": _IDLE,
            "backlog": _WAITING,
        }
        protocol = importlib.import_module("uvicorn.protocols.http.h11_impl").H11Protocol
        connections = Connections(protocol, most, seconds, read_seconds)
        ours |= {"http": connections.protocol, "limit_concurrency": connections.most + 1}
        config = uvicorn.Config(connections.watched(app), **{**ours, **settings})
        server = uvicorn.Server(config)
        if stop is not None:
            server.capture_signals = contextlib.nullcontext  # the caller handles Ctrl-C and ends this server too
        bracketed = f"[{host}]" if ":" in host else host
        ready(f"http://{bracketed}:{bound.getsockname()[1]}")
        watcher = None if stop is None else asyncio.ensure_future(_stop(server, stop))
        try:
            await server.serve(sockets=[bound])
        finally:
            if watcher is not None:
                watcher.cancel()


@contextlib.asynccontextmanager
async def serving(app: ASGI, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
    """Serve during the block and yield the address, by default a free port of this machine."""
    stop, bound = asyncio.Event(), asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(app, host, port, bound.set_result, stop))
    try:
        await asyncio.wait([server, bound], return_when=asyncio.FIRST_COMPLETED)
        if server.done():
            server.result()
        yield await bound
    finally:
        stop.set()
        await server


async def _stop(server: "Server", stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


def named_here(headers: Mapping[str, str]) -> bool:
    """Return True if a request's Host header is a loopback name; the names of `headers` are in lower case.

    A web page can make its own host name point to this machine (DNS rebinding), so a server on loopback without a key must
    not answer to other names. The port is not compared, because a tunnel may use another one.
    """
    try:
        return loopback(urlsplit(f"//{headers.get('host', '')}").hostname or "")
    except ValueError:
        return False


def other_name(headers: Mapping[str, str]) -> str:
    """Return the reason for refusing a request under another host name."""
    return f"this server answers to localhost and 127.0.0.1 only, not to {headers.get('host', '')[:200]!r}"


def loopback(host: str) -> bool:
    """Return True if an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
