"""One vLLM server over HTTP: token ids through its generate endpoint, weights through its endpoints for RL."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from agentgym.core.json_value import Object, entries, table
from agentgym.engines.fleet.backend import About, Answer, Scores, ServerFailure, ServerUnreachable
from agentgym.engines.fleet.weights import ADAPTERS
from agentgym.engines.in_flight import in_full
from agentgym.engines.openai.client import LoopClient, httpx2, largest, received, received_now
from agentgym.engines.openai.engine import checked, numbers, scored
from agentgym.engines.openai.http import LARGEST, Garbage, read_object
from agentgym.engines.protocol import Sampling
from agentgym.errors import BadConfig, Fault, Reason

T = TypeVar("T")
TRANSFER = '--weight-transfer-config \'{"backend": "shared_memory"}\''
EXTENSION = "--worker-extension-cls agentgym.engines.vllm.worker.WorkerExtension"
_ANY = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out --enable-prompt-tokens-details --generation-config vllm "
    "--logprobs-mode processed_logprobs"
)
SERVE = f"{_ANY} {EXTENSION} {TRANSFER}"
"""Command that starts a server for training of whole weights."""
SERVE_ADAPTERS = f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 {_ANY} --enable-lora --max-lora-rank RANK"
"""Command that starts a server for training of LoRA adapters."""
_QUOTED = 300
_GENERATE = "/inference/v1/generate"


class RequestRefused(Fault):
    """A refusal of one request that a retry would not change."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, reason=Reason.ENGINE)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Time limits of a server, in seconds."""

    request: float = 600.0
    """For a completion, including the wait in the server's queue."""
    sign: float = 30.0
    """For a health check."""
    update: float = 300.0
    """For each call of a weight update."""


class VLLMServer:
    """A vLLM server started with `SERVE`; see `Backend`. For evaluation, the flags for weight updates are not needed."""

    def __init__(self, url: str, limits: Limits, key: str = "", *, seeded: bool = True) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.adapter = ""
        self._limits, self._seeded = limits, seeded
        self._key = key.encode()
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = LoopClient(max(limits.request, limits.update))
        self._model = ""

    def about(self) -> About:
        """Return the description of the one model that the server offers.

        Raises:
            ServerUnreachable: the server cannot be reached.
            ServerFailure: the server answers with an error or unexpected content.
            BadConfig: the server is not a vLLM server with one model, or refuses the key.
        """
        try:
            with httpx2.stream("GET", f"{self.url}/v1/models", headers=self._headers, timeout=self._limits.sign) as answer:
                content = received_now(answer, LARGEST)
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            raise ServerUnreachable(_broken(error, self._limits.sign)) from error
        try:
            listing = self._read("/v1/models", answer.status_code, content)
        except RequestRefused as error:
            raise BadConfig(f"{error}; expected the address of a vLLM server") from error
        models = [table(model) for model in entries(listing.get("data"))]
        bases = [model for model in models if not model.get("parent")]
        if len(bases) != 1:
            raise BadConfig(f"{self.url} lists {len(bases)} models; expected a vLLM server with one")
        self._model, served = str(bases[0].get("id")), bases[0].get("max_model_len")
        context = served if isinstance(served, int) and served > 1 else None
        return About(self._model, str(bases[0].get("root") or self._model), context)

    async def alive(self) -> str | None:
        """Return the label of the server's weights, from its engine process, which answers even when busy.

        Return None if the server is healthy but has no endpoint for the label.
        """
        try:
            answer = await self._call("GET", "/weight_info", self._limits.sign)
        except RequestRefused:
            await self._call("GET", "/health", self._limits.sign, parse=False)
            return None
        return str(answer.get("weight_version"))

    async def generate(self, prompt: list[int], sampling: Sampling, limit: int) -> Answer:
        """Sample at most `limit` tokens; the answer includes the label of the weights."""
        parameters = {**_sampling(sampling, limit), "logprobs": 0}
        if not self._seeded:
            del parameters["seed"]

        def read(answer: Object) -> Answer:
            choice = _only(answer)
            content = [table(entry) for entry in entries(table(choice.get("logprobs")).get("content"))]
            if [entry.get("token_id") for entry in content] != entries(choice.get("token_ids")):
                raise Garbage("expected a log-probability for each of token_ids")
            values = numbers([entry.get("logprob") for entry in content])
            done = checked(choice, values, sampling, limit, 0)
            cached = table(table(answer.get("usage")).get("prompt_tokens_details")).get("cached_tokens")
            return Answer(done, _label(choice), cached if type(cached) is int and 0 <= cached <= len(prompt) else None)

        return await self._generated(prompt, parameters, read, largest(limit))

    async def score(self, ids: list[int]) -> Scores:
        """Return the log-probabilities at temperature 1 of all tokens after the first."""
        parameters = {**_sampling(Sampling(temperature=1.0), 1), "prompt_logprobs": 0}

        def read(answer: Object) -> Scores:
            rows = entries(answer.get("prompt_logprobs"))
            if len(rows) != len(ids):
                raise Garbage(f"expected {len(ids)} prompt_logprobs")
            return Scores([scored(row, id) for row, id in zip(rows[1:], ids[1:], strict=True)], _label(_only(answer)))

        return await self._generated(ids, parameters, read, largest(len(ids)))

    async def _generated(self, ids: list[int], parameters: dict[str, object], read: Callable[[Object], T], most: int) -> T:
        if not self.adapter and not self._model:
            await asyncio.to_thread(self.about)
        body = {"model": self.adapter or self._model, "token_ids": ids, "sampling_params": parameters, "stream": False}
        answer = await self._call("POST", _GENERATE, self._limits.request, body, most=most)
        try:
            return read(answer)
        except Garbage as error:
            raise ServerFailure(f"{error.kind} ({error})") from error

    async def update(self, files: Sequence[dict[str, Any]], label: str) -> None:
        """Load weights from safetensors files that the server can read; this aborts all running requests."""
        async with self._change(label, f"it has no endpoints for weights: start it with {SERVE}"):
            try:
                await self._update("/start_weight_update")
            except ServerFailure:  # an earlier update was not finished, or weights cannot be sent at all
                await self._update("/collective_rpc", {"method": "abandon_weight_update"})
                await self._update("/start_weight_update")
            for sent in files:
                await self._update("/update_weights", {"update_info": sent})
            await self._update("/finish_weight_update")

    async def adapt(self, folder: str, label: str) -> None:
        """Load the LoRA adapter in a folder that the server can read; this aborts all running requests.

        Unloading an adapter in vLLM only drops its name. The old adapter's tensors leave the engine when the new
        adapter takes the only place (`--max-loras 1`).
        """
        async with self._change(label, f"adapters cannot be loaded into it: start it with {SERVE_ADAPTERS}"):
            for name in await self._adapters():
                await self._update("/v1/unload_lora_adapter", {"lora_name": name})
            await self._update("/v1/load_lora_adapter", {"lora_name": self.adapter, "lora_path": folder})

    async def _adapters(self) -> list[str]:
        """Return the names of the adapters that a fleet has loaded into the server."""
        listing = await self._call("GET", "/v1/models", self._limits.update)
        models = [table(model) for model in entries(listing.get("data"))]
        names = [str(model.get("id")) for model in models if model.get("parent")]
        return [name for name in names if name.startswith(ADAPTERS)]

    @asynccontextmanager
    async def _change(self, label: str, advice: str) -> AsyncGenerator[None]:
        """Pause the server for a weight change in the block: no requests run, and nothing cached is reused afterwards.

        The label is set last, so an interrupted update leaves a label that is not `label`. `advice` becomes part of the
        error if the server lacks an endpoint.

        Raises:
            ServerFailure: the server refuses, or cannot drop its prefix cache.
            BadConfig: the server lacks an endpoint.
        """
        try:
            await self._update("/update_weight_version", {"new_version": f"{label} is under way"})
            await self._update("/pause?mode=abort")
            yield
            if not (await self._call("POST", "/reset_prefix_cache", self._limits.update)).get("success"):
                raise ServerFailure("its prefix cache could not be dropped")
            await self._update("/resume")
            await self._update("/update_weight_version", {"new_version": label})
        except RequestRefused as error:
            if error.status in (404, 405):
                raise BadConfig(f"{error}; {advice}") from error
            raise ServerFailure(str(error)) from error

    async def _update(self, path: str, body: dict[str, Any] | None = None) -> None:
        await self._call("POST", path, self._limits.update, body, parse=False)

    async def _call(
        self,
        method: str,
        path: str,
        seconds: float,
        body: dict[str, Any] | None = None,
        *,
        parse: bool = True,
        most: int = LARGEST,
    ) -> Object:
        """Call an endpoint and return the JSON object in its answer of at most `most` bytes; {} if `parse` is False.

        Raises:
            ServerUnreachable: the server cannot be reached, takes too long, or has lost the adapter.
            ServerFailure: the answer is too long or not JSON, or the server may recover (5xx, 408, 409, 425, 429).
            RequestRefused: the server refuses this request.
            BadConfig: the key is wrong, or the server does not return token ids.
        """
        client = await self._client.opened()
        try:
            async with (
                asyncio.timeout(seconds),  # for the whole answer, since a slow one may send bytes in time
                client.stream(method, f"{self.url}{path}", json=body, headers=self._headers) as answer,
            ):
                content, whole = await received(answer.aiter_bytes(), most)
                status = answer.status_code
        except (TimeoutError, httpx2.RequestError) as error:
            raise ServerUnreachable(f"{_broken(error, seconds)} to {path}") from error
        if status == 200 and not whole:
            raise ServerFailure(f"an answer above {most >> 10} KiB")
        return {} if status == 200 and not parse else self._read(path, status, content)

    def _read(self, path: str, status: int, content: bytes) -> Object:
        content = content.replace(self._key, b"[key]") if self._key else content
        if status == 200:
            try:
                return read_object(content)
            except Garbage as error:
                raise ServerFailure(f"{error.kind} ({error}) from {path}") from error
        message = f"{self.url}{path} answered with status {status}: {content[:_QUOTED].decode('utf-8', 'replace')!r}"
        if status >= 500 or status in (408, 409, 425, 429):
            raise ServerFailure(message)
        if status == 401:
            raise BadConfig(f"{message}; name the variable with its key: --engine.key_env NAME")
        if path == _GENERATE and status == 404 and self.adapter:
            raise ServerUnreachable(f"{message}; it does not have the adapter {self.adapter}: it was started again")
        if path == _GENERATE and status in (403, 404, 405):
            raise BadConfig(f"{message}; it does not give exact tokens: start it with {SERVE}")
        raise RequestRefused(message, status)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def key_of(variable: str | None) -> str:
    """Return the API key in an environment variable; empty if `variable` is None or empty.

    Raises:
        BadConfig: the environment variable named by `variable` is unset or empty.
    """
    if variable and not os.environ.get(variable):
        raise BadConfig(f"engine.key_env is {variable!r}, and no such environment variable is set")
    return os.environ.get(variable, "") if variable else ""


def _sampling(sampling: Sampling, limit: int) -> dict[str, object]:
    return {**in_full(sampling, limit), "detokenize": False}


def _only(answer: Object) -> Object:
    choices = entries(answer.get("choices"))
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise Garbage("expected one choice")
    return choices[0]


def _label(choice: Object) -> str:
    """Return the label of the weights that sampled a choice.

    Raises:
        Garbage: the label is missing.
    """
    spans = [table(span).get("version") for span in entries(choice.get("weight_versions"))]
    if not spans or not all(isinstance(label, str) and label for label in spans):
        raise Garbage("expected weight_versions (vllm serve gives them, 0.32 or later)")
    return ", ".join(dict.fromkeys(str(label) for label in spans))


def _broken(error: Exception, seconds: float) -> str:
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"no answer in {seconds:g} s"
    return "no connection" if isinstance(error, httpx2.ConnectError) else f"a broken connection ({str(error)[:_QUOTED]!r})"


def addresses(url: str) -> list[str]:
    """Return the addresses in `URL,URL,…`, without `/v1` at their ends.

    Raises:
        BadConfig: an entry is not an address, or occurs twice.
    """
    urls = [part.strip().rstrip("/").removesuffix("/v1") for part in url.split(",") if part.strip()]
    if not urls or not all(
        part.startswith(("http://", "https://")) and "@" not in part and "?" not in part for part in urls
    ):
        raise BadConfig(f"servers {url!r}: expected addresses such as http://localhost:8000, separated by commas")
    for part in urls:
        if urls.count(part) > 1:
            raise BadConfig(f"servers {url!r}: {part} comes {urls.count(part)} times; name each server once")
    return urls
