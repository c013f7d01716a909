"""Serve an environment: sessions over HTTP, and over WebSocket at /ws, which OpenEnv's clients can also use.

agentgym serve env frozenlake --env.slip 0.2           sessions at http://127.0.0.1:8000; protocol: docs/guides/serve.md
agentgym serve env household --sessions 256 --idle-seconds 120
AGENTGYM_TOKEN=… agentgym serve env code --host 0.0.0.0          for other machines, which must send the token
"""

import asyncio
import importlib
import importlib.util
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from agentgym.core.screen import printable
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.options import Options, Positional
from agentgym.registry import Maker, full_id
from agentgym.serving.server import loopback


@dataclass(frozen=True)
class Config:
    """Options of `agentgym serve env`."""

    id: Positional[str]
    """The environment: an id, a short name, or MODULE:NAMESPACE/NAME-v0."""
    host: str = "127.0.0.1"
    """Address to listen on. Any other than a loopback address needs a token."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    token: str = ""
    """Token that clients must send; default: the environment variable AGENTGYM_TOKEN, else none."""
    sessions: int = 64
    """Maximum number of open sessions; a request for more gets a 503."""
    idle_seconds: float = 600.0
    """Seconds after which an unused session ends."""
    step_seconds: float = 60.0
    """Time limit in seconds of a step or reset."""
    snapshots: int = 16
    """Maximum snapshots per session; a new snapshot beyond that replaces the oldest."""
    workers: int = 2
    """Processes for an environment whose steps may wait for something external, such as a browser."""
    body_mib: int = 4
    """Largest request body or message in MiB."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Serve until Ctrl-C or SIGTERM, which end all sessions.

    Raises:
        BadConfig: an option is invalid.
        MissingExtra: a package is missing.
    """
    from agentgym.env_server.sessions import Limits, Sessions

    token = token_of(config.token, config.host)
    check_port(config.port)
    if config.body_mib < 1:
        raise BadConfig(f"--body-mib is {config.body_mib}; expected at least 1")
    if absent := [name for name in ("uvicorn", "websockets") if importlib.util.find_spec(name) is None]:
        raise MissingExtra(f"serving an environment needs {' and '.join(absent)}: {how_to_install('serve-env')}")
    limits = Limits(config.sessions, config.idle_seconds, config.step_seconds, config.snapshots, config.workers)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(config, Sessions(Maker(config.id, config.env_options), limits), token))
    return 0


def token_of(token_flag: str, host: str) -> str | None:
    """Return the token that clients must send, if any.

    Raises:
        BadConfig: other machines could connect without a token.
    """
    token = token_flag or os.environ.get("AGENTGYM_TOKEN") or None
    if token is None and not loopback(host):
        raise BadConfig(f"--host {host} lets other machines in: set a token with AGENTGYM_TOKEN, or listen on 127.0.0.1")
    return token


def check_port(port: int) -> None:
    """Check that a port number is in the valid range.

    Raises:
        BadConfig: the port is out of range.
    """
    if not 0 <= port < 65536:
        raise BadConfig(f"--port is {port}; expected 0 to 65535")


def ended() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set instead of ending the process."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's event loop, which uses a third less CPU; None if uvloop is not installed."""
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None


async def _serve(config: Config, sessions: Any, token: str | None) -> None:
    from agentgym import __version__
    from agentgym.env_server.app import App
    from agentgym.rollout.limits import one_alarm
    from agentgym.serving.server import serve

    console = Console(highlight=False)
    name = full_id(config.id)

    def ready(address: str) -> None:
        guarded = "with a token" if token else "no token"
        banner = f"{name} at {address} ({config.sessions} sessions, {guarded}; Ctrl-C ends)"
        console.print(printable(banner), markup=False, soft_wrap=True)

    app = App(sessions, name=name, version=__version__, token=token, body_bytes=config.body_mib << 20)
    settings: dict[str, Any] = {
        "most": 4 * config.sessions + 256,  # connections, with and without a session
        "ws": "websockets-sansio",
        "ws_max_size": config.body_mib << 20,
        "ws_per_message_deflate": False,
    }
    try:
        with one_alarm():
            await serve(app, config.host, config.port, ready, ended(), **settings)
    finally:
        left = len(sessions.open)
        sessions.close()
        console.print(f"\nended, and {left} open sessions with it", markup=False, soft_wrap=True)
