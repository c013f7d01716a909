"""Serve an environment to other programs, a model to other agents, or a retriever to environments.

agentgym serve env ID            sessions over HTTP and WebSocket (serve env --help)
agentgym serve mcp ID            an environment as an MCP server (serve mcp --help)
agentgym serve gateway           records other agents' requests to a model; flags below
agentgym serve retriever         an index of passages (serve retriever --help)

agentgym serve gateway --model runs/policy                       then point the agent's base URL to http://127.0.0.1:8000/v1
agentgym serve gateway --model Qwen/Qwen3-1.7B --engine vllm --temperature 1 --out runs/agent/episodes.jsonl
"""

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from agentgym.cli import serve_env, serve_mcp, serve_retriever
from agentgym.cli.flags import read_flags
from agentgym.core.screen import announce
from agentgym.engines.kinds import kind_of
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.options import Options, Positional
from agentgym.serving.server import loopback


@dataclass(frozen=True)
class Config:
    """Options of `agentgym serve`."""

    what: Positional[str]
    """`gateway`: an endpoint that records OpenAI and Anthropic clients. For `env`, `mcp` and `retriever` see above."""
    model: str = ""
    """Folder or hub name of a model, or folder of a training run."""
    engine: str = "hf"
    """Engine that runs the model: hf, vllm or openai (--model is then a URL)."""
    name: str = ""
    """The model's name for clients; default: the last part of --model."""
    host: str = "127.0.0.1"
    """Address to listen on. Any other than a loopback address needs a key."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    key: str = ""
    """API key that clients must send; default: the environment variable AGENTGYM_KEY, else none."""
    out: str = "runs/gateway/episodes.jsonl"
    """File to append finished sessions to, as episodes."""
    temperature: float | None = None
    """Sampling temperature that overrides the clients' sampling options (top-p and top-k included), so that every reply
    can be trained on.
    """
    turn_tokens: int = 1024
    """Maximum number of tokens in a reply if the client sets no limit."""
    body_mib: int = 16
    """Largest request body in MiB."""
    seed: int = 0
    """Seed of replies if the client sends none."""
    engine_options: Options = field(default_factory=dict[str, object])
    """Options of the engine: --engine.KEY VALUE, for example --engine.device cuda."""


_OTHERS = {"env": serve_env, "mcp": serve_mcp, "retriever": serve_retriever}


def read(arguments: Sequence[str]) -> Any:
    """Return the parsed flags of the server that the first argument names."""
    if (name := "".join(arguments[:1])) in _OTHERS:
        module = _OTHERS[name]
        return read_flags(module.Config, arguments[1:], command=f"serve {name}", description=module.__doc__)
    return read_flags(Config, arguments, command="serve", description=__doc__)


def run(config: Any) -> int:
    """Serve until Ctrl-C.

    Raises:
        UnknownName: the server is unknown.
        BadConfig: an option is invalid.
        MissingExtra: uvicorn is not installed.
    """
    for module in _OTHERS.values():
        if isinstance(config, module.Config):
            return module.run(config)
    if config.what != "gateway":
        raise UnknownName(no_such("server", config.what, [*_OTHERS, "gateway"]))
    kind, _ = kind_of(config.engine)
    if not kind.tokens:
        raise BadConfig("the gateway records exact tokens, and plain chat has none: use --engine hf, vllm or openai")
    if not config.model:
        raise BadConfig("say which model: --model FOLDER, or the hub name of one")
    key = config.key or os.environ.get("AGENTGYM_KEY") or None
    if key is None and not loopback(config.host):
        raise BadConfig(f"--host {config.host} lets other machines in: set a key with AGENTGYM_KEY, or listen on 127.0.0.1")
    if not 0 <= config.port < 65536 or config.body_mib < 1:
        raise BadConfig(f"--port is {config.port}, --body-mib {config.body_mib}; expected 0 to 65535, and at least 1")
    if importlib.util.find_spec("uvicorn") is None:
        raise MissingExtra(f"serving needs uvicorn: {how_to_install('serve')}")
    from agentgym.engines import engine

    model = config.model
    if kind.trains and not kind.of_address:
        from agentgym.trainers.run.preflight import model_folder

        model = model_folder(model)
        kind.check_target(model)
    announce(f"loading {model} with engine {config.engine}")
    if kind.in_process:
        from agentgym.cli.train import need_training, quiet

        need_training()
        quiet()
    loaded = engine(f"{config.engine}:{model}", **config.engine_options)
    from agentgym.serving.server import terminated_as_interrupted

    try:
        with terminated_as_interrupted():
            asyncio.run(_serve(config, loaded, key))
    except KeyboardInterrupt:  # uvicorn has shut down and re-raises the signal
        pass
    finally:
        loaded.close()
    return 0


async def _serve(config: Config, engine: Any, key: str | None) -> None:
    from agentgym.gateway.app import App
    from agentgym.gateway.gateway import Gateway
    from agentgym.serving.server import serve

    name = config.name or Path(config.model.rstrip("/")).name
    options: dict[str, Any] = {"temperature": config.temperature, "turn_tokens": config.turn_tokens, "seed": config.seed}
    gateway = Gateway(engine, name, out=config.out, **options)
    console = Console(highlight=False)

    def ready(address: str) -> None:
        console.print(f"{name} at {address}/v1 (Ctrl-C ends); sessions go to {config.out}", markup=False, soft_wrap=True)

    try:
        await serve(App(gateway, key=key, body_bytes=config.body_mib << 20), config.host, config.port, ready)
    finally:
        counts = gateway.counts()
        gateway.sessions.close()
        console.print(f"\n{', '.join(f'{n} {k}' for k, n in counts.items())}", markup=False, soft_wrap=True)
