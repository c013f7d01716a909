"""Serve an environment as an MCP server: its tools (or one tool, act) and reset, over stdio or streamable HTTP.

agentgym serve mcp desk --task test/0/3 --out episodes.jsonl      the command for an agent's configuration
agentgym serve mcp household --http --port 8000                   then http://127.0.0.1:8000/mcp?session=RANDOM-NAME
"""

import asyncio
import importlib.util
import logging
import sys
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from agentgym.cli.serve_env import check_port, ended, token_of
from agentgym.core.screen import printable
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.options import Options, Positional
from agentgym.registry import Maker, full_id


@dataclass(frozen=True)
class Config:
    """Options of `agentgym serve mcp`."""

    id: Positional[str]
    """The environment: an id, a short name, or MODULE:NAMESPACE/NAME-v0."""
    http: bool = False
    """Serve streamable HTTP at /mcp instead of stdio."""
    host: str = "127.0.0.1"
    """Address to listen on with --http. Any other than a loopback address needs a token."""
    port: int = 8000
    """Port to listen on with --http; 0 takes a free one."""
    token: str = ""
    """Token that clients must send with --http; default: the environment variable AGENTGYM_TOKEN, else none."""
    seed: int | None = None
    """Seed of the episode; clients then cannot choose seed or task, and can start only one episode in total."""
    task: str | None = None
    """Task of the episode; clients then cannot choose seed or task, and can start only one episode in total."""
    tries: int | None = None
    """Maximum number of episodes with --task or --seed, over all sessions (default: 1)."""
    rewards: bool = False
    """Show reward and success to the client; by default only the --out file has them."""
    out: str = ""
    """File to append finished episodes to, one per line: task, turns, reward, success, reason."""
    sessions: int = 64
    """Maximum number of open sessions."""
    idle_seconds: float = 3600.0
    """Seconds after which an unused session ends."""
    step_seconds: float = 60.0
    """Time limit in seconds of a step or reset."""
    body_mib: int = 4
    """Largest request body in MiB."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Serve until the client closes stdin, or until Ctrl-C or SIGTERM.

    Raises:
        BadConfig: an option is invalid.
        MissingExtra: the package mcp is not installed.
    """
    from agentgym.env_server.mcp_server import McpServer
    from agentgym.env_server.sessions import Limits, Sessions

    token = token_of(config.token, config.host) if config.http else None
    check_port(config.port)
    if config.body_mib < 1:
        raise BadConfig(f"--body-mib is {config.body_mib}; expected at least 1")
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtra(f"an MCP server needs the package mcp: {how_to_install('mcp')}")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    limits = Limits(config.sessions, config.idle_seconds, config.step_seconds)
    sessions = Sessions(Maker(config.id, config.env_options), limits)
    fixed = {name: value for name in ("seed", "task") if (value := getattr(config, name)) is not None}
    options: dict[str, Any] = {"rewards": config.rewards, "fixed": fixed, "out": config.out or None, "tries": config.tries}
    server = McpServer(sessions, full_id(config.id), **options)
    asyncio.run(_http(config, server, token) if config.http else _stdio(server))
    return 0


async def _stdio(server: Any) -> None:
    """Serve the parent process over stdio until it closes our stdin."""
    from mcp.server.stdio import stdio_server

    inside = server.server()
    try:
        async with stdio_server() as (incoming, outgoing):
            await inside.run(incoming, outgoing, inside.create_initialization_options())
    finally:
        server.close()


async def _http(config: Config, server: Any, token: str | None) -> None:
    from agentgym.serving.server import serve

    console = Console(file=sys.stdout, highlight=False)

    def ready(address: str) -> None:
        banner = f"{server.name} at {address}/mcp?session=NAME (a random NAME of 16 characters or more; Ctrl-C ends)"
        console.print(printable(banner), markup=False, soft_wrap=True)

    try:
        await serve(
            server.app(config.host, token, config.body_mib << 20), config.host, config.port, ready, ended(), lifespan="on"
        )
    finally:
        server.close()
