"""vLLM servers as one engine: `vllm:URL,URL,…`."""

from pathlib import Path
from typing import Any

from agentgym.engines.fleet.backend import About, Lost, Trouble
from agentgym.engines.fleet.fleet import Fleet
from agentgym.engines.kinds import VLLM_SERVERS
from agentgym.engines.openai.engine import KNOWN, served_tokenizer
from agentgym.engines.vllm_servers.server import Limits, VLLMServer, addresses, key_of
from agentgym.errors import BadConfig, EngineDead


class VLLMFleet(Fleet):
    """Tokens in, tokens and log-probabilities out, over one vLLM server or several with the same model.

    `url` is an address, or several separated by commas. `tokenizer` and `context` default to what the servers say of
    themselves. Weights go to the servers through vLLM's own endpoints for RL, as files in `folder`, which the servers
    have to see (default: shared memory, for servers of this machine). `timeout` is for a completion, `patience` for a
    sign of life, `update_timeout` for each call of an update, `wait` for a server to come back where none is left; in
    seconds. `key_env` names the environment variable that holds the servers' API key. Without `seeded` the seeds of requests
    are left out, which spares vLLM's sampler a loop over the rows of each step; each server then draws from its own stream,
    so no two may be started with the same `--seed`.
    """

    kind = VLLM_SERVERS

    def __init__(
        self,
        url: str,
        tokenizer: object = None,
        *,
        context: int | None = None,
        folder: str | None = None,
        timeout: float = 600.0,
        patience: float = 30.0,
        update_timeout: float = 300.0,
        wait: float = 60.0,
        key_env: str | None = None,
        seeded: bool = True,
    ) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise BadConfig(f"engine.folder is {folder!r}, and there is no such folder; expected one that every server sees")
        limits, key = Limits(timeout, patience, update_timeout), key_of(key_env)
        servers = [VLLMServer(address, limits, key, seeded=seeded) for address in addresses(url)]
        told = _told(servers)
        self.tokenizer = served_tokenizer(told[0].root) if tokenizer is None else tokenizer
        encoded: Any = self.tokenizer.encode("\n".join(KNOWN), add_special_tokens=False)
        room = _context(told, context)
        super().__init__(
            servers, self.tokenizer, context=room, known=[int(id) for id in encoded][: room - 1], wait=wait, folder=folder
        )


def _told(servers: list[VLLMServer]) -> list[About]:
    """Return what the servers that answer say of themselves; one that does not may come later."""
    told: list[About] = []
    silent: list[str] = []
    for server in servers:
        try:
            told.append(server.about())
        except (Lost, Trouble) as error:
            silent.append(f"{server.url}: {error}")
    if not told:
        raise EngineDead(f"no server answers: {'; '.join(silent)}")
    return told


def _context(told: list[About], asked: int | None) -> int:
    """Return how much prompt and completion every server has room for."""
    served = [about.context for about in told if about.context is not None]
    if asked is None and not served:
        raise BadConfig("no server says how long its context is (max_model_len): pass context=…")
    if asked is not None and served and asked > min(served):
        raise BadConfig(
            f"a context of {asked} tokens is asked for, and a server has {min(served)}: start it with "
            f"--max-model-len {asked}"
        )
    return asked or min(served)
