"""An engine over one or more vLLM servers: `vllm:URL,URL,…`."""

from pathlib import Path
from typing import Any

from agentgym.engines.fleet.backend import About, ServerFailure, ServerUnreachable
from agentgym.engines.fleet.fleet import Fleet
from agentgym.engines.kinds import VLLM_SERVERS
from agentgym.engines.openai.engine import KNOWN, served_tokenizer
from agentgym.engines.vllm_servers.server import Limits, VLLMServer, addresses, key_of
from agentgym.errors import BadConfig, EngineDead


class VLLMFleet(Fleet):
    """Samples tokens from one vLLM server, or several with the same model.

    `url` is an address, or a comma-separated list of addresses. `tokenizer` and `context` default to the servers' own
    description. Weights go to the servers through vLLM's own endpoints for RL, as files in `folder`, which the servers
    must be able to read (default: shared memory, for servers on this machine). Time limits, in seconds: `timeout` (600)
    for a completion, `patience` (30) for a health check, `update_timeout` (300) for each call of a weight update, and
    `wait` (60) for a server to return if none is left. `key_env` names the environment variable with the servers' API
    key. With `seeded=False` the seeds of requests are omitted, which saves vLLM's sampler a loop over the rows of each
    step; each server then draws from its own random stream, so start each with a different `--seed`.
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
        answers = _reachable(servers)
        self.tokenizer = served_tokenizer(answers[0].root) if tokenizer is None else tokenizer
        encoded: Any = self.tokenizer.encode("\n".join(KNOWN), add_special_tokens=False)
        room = _context(answers, context)
        super().__init__(
            servers, self.tokenizer, context=room, known=[int(id) for id in encoded][: room - 1], wait=wait, folder=folder
        )


def _reachable(servers: list[VLLMServer]) -> list[About]:
    """Return the descriptions of the servers that answer; other servers may join later.

    Raises:
        EngineDead: no server answers.
    """
    answers: list[About] = []
    silent: list[str] = []
    for server in servers:
        try:
            answers.append(server.about())
        except (ServerUnreachable, ServerFailure) as error:
            silent.append(f"{server.url}: {error}")
    if not answers:
        raise EngineDead(f"no server answers: {'; '.join(silent)}")
    return answers


def _context(answers: list[About], requested: int | None) -> int:
    """Return the largest context, in tokens, that every server supports, or `requested` if that is set.

    Raises:
        BadConfig: `requested` is None and no server reports its context, or a server's is smaller than `requested`.
    """
    served = [about.context for about in answers if about.context is not None]
    if requested is None and not served:
        raise BadConfig("no server says how long its context is (max_model_len): pass context=…")
    if requested is not None and served and requested > min(served):
        raise BadConfig(
            f"a context of {requested} tokens is asked for, and a server has {min(served)}: start it with "
            f"--max-model-len {requested}"
        )
    return requested or min(served)
