"""Bringing new weights to the engine; nothing computed under old ones is used again."""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import Tensor, distributed
from transformers import PreTrainedModel

from agentgym.engines import Sampling
from agentgym.engines.fleet.backend import Lost, Trouble
from agentgym.engines.fleet.weights import apart
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.kinds import EngineKind
from agentgym.engines.shards import shapes
from agentgym.engines.vllm.transfer import Control, check_devices, sender
from agentgym.errors import BadConfig
from agentgym.trainers.weights.gather import adapter, full, is_sharded
from agentgym.trainers.weights.outgoing import OnePass, adapter_folder, has_adapter, outgoing

TEMPERATURE, TOKENS = 0.5, 16
"""How a server is asked whose log-probabilities are to be looked at."""
DISTINCT = 0.05
"""Mean difference from which log-probabilities of two temperatures can be told apart."""


class WeightSync(Protocol):
    """The way from a trainer's model to the engine that samples from it."""

    async def push(self, version: int) -> None:
        """Make the engine sample from the model's present weights, as policy version `version`.

        Running requests end first, and none spans two versions. Every process that trains calls it. Raises
        `Fault(reason="engine")` when the weights did not arrive.
        """
        ...

    def close(self) -> None:
        """Let go of what connects the two."""
        ...


def weight_sync(
    model: PreTrainedModel, engine: Any, *, copied: bool = False, device: torch.device | None = None
) -> WeightSync:
    """Return the way from a model to an engine: by the tensors they share, or by the engine's transport.

    `copied`: an engine in this process has a copy of the model, into which new weights are copied. `device`: where the
    model will be, if it is elsewhere now because it is yet to be sharded.
    """
    kind: EngineKind | None = getattr(engine, "kind", None)  # an engine of one's own has none
    if kind and kind.in_process and (copied or engine.model is model):
        return InProcess(model, engine)
    if kind and kind.sent_weights and kind.of_address:
        return FleetTransfer(model, engine)
    if kind and kind.sent_weights:
        if has_adapter(model):
            return AdapterFolder(model, engine)
        return Transfer(model, engine, device or next(iter(model.parameters())).device)
    raise BadConfig(f"weights cannot be sent to {type(engine).__name__}; expected vllm, or hf over the model itself")


class InProcess:
    """The hf engine in this process: over the trainer's own tensors it only forgets its caches; a copy it changes."""

    def __init__(self, model: PreTrainedModel, engine: HFEngine) -> None:
        self._model, self._engine = model, engine
        self._dtypes = {name: value.dtype for name, value in model.named_parameters()}

    async def push(self, version: int) -> None:
        """Between two turns of all episodes, take the weights over, drop every cache and set the version."""
        await self._engine.load_weights(self._named(), version)

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters; of sharded ones those that are trained, each gathered when its turn comes."""
        for name, value in self._model.named_parameters():
            if not is_sharded(value):
                yield name, value
            elif value.requires_grad:
                yield name, full(value.detach().to(self._dtypes[name]))

    def close(self) -> None:
        """Do nothing."""


class Transfer:
    """Sends checkpoint tensors to a vLLM engine by its transport: `shared_memory`, `ipc` or `nccl`."""

    def __init__(self, model: PreTrainedModel, engine: Any, device: torch.device) -> None:
        from agentgym.trainers.weights.checkpoint import Checkpoint

        self._engine, self._device = engine, device
        if engine.transport != "shared_memory":
            check_devices(engine.transport, self._device.index, engine.devices)
        self._source = Checkpoint(model)
        self._sender: Any = None

    async def push(self, version: int) -> None:
        """Send every tensor; those that are sharded are gathered one at a time."""
        await self._engine.receive(shapes(self._source), self._send, version)

    def _send(self, control: Control) -> None:
        """Run one update, in a thread of its own: which device is current is a thread's own affair."""
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        try:
            with torch.no_grad():
                if self._sender is None:
                    self._sender = sender(self._engine.transport, control, self._source, self._engine.workers)
                self._sender.send_weights()
        except BaseException:
            self.close()  # a broken connection is made anew
            raise

    def close(self) -> None:
        """End the connection."""
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None


class AdapterFolder:
    """Hands a model's LoRA adapter to a vLLM engine as a folder in shared memory; the weights under it are never sent."""

    def __init__(self, model: PreTrainedModel, engine: Any) -> None:
        self._model, self._engine = model, engine

    async def push(self, version: int) -> None:
        """Let the engine read the present adapter, as small as it is; the folder is gone afterwards."""
        with adapter_folder(self._model, adapter(self._model)) as folder:
            await self._engine.load_weights(folder, version)

    def close(self) -> None:
        """Do nothing: the folder is gone."""


class FleetTransfer:
    """Brings a model's weights, or its adapter, to a fleet of servers; of several processes the first does it for all."""

    def __init__(self, model: PreTrainedModel, engine: Any) -> None:
        self._model, self._engine, self._outgoing = model, engine, outgoing(model)
        self._proved: set[tuple[str, int]] = set()

    async def push(self, version: int) -> None:
        """Send what was trained. With the first, every server has to score a known text as the model does.

        Whether a server's log-probabilities are those of the temperature asked for is found out as soon as the model can
        tell; BadConfig where they are not.
        """
        if not distributed.is_initialized():
            await self._send(version)
            return
        was_paused = self._engine.paused
        await self._engine.pause()
        try:
            await asyncio.to_thread(_barrier)  # nobody's requests run on any server
            errors: list[Any] = [None]
            if distributed.get_rank() == 0:
                errors = [await self._told(version)]
            elif self._sharded:
                await asyncio.to_thread(self._outgoing.gather)
            await asyncio.to_thread(distributed.broadcast_object_list, errors)
            if isinstance(errors[0], Exception):
                raise errors[0]
            if distributed.get_rank() != 0:
                self._engine.adopt(errors[0])
        finally:
            if not was_paused:
                await self._engine.resume()

    async def _told(self, version: int) -> Any:
        """Return what the other processes are to take over, or what went wrong."""
        try:
            await self._send(version)
        except Exception as error:  # which the others must hear of, whatever it is
            return error
        return self._engine.state()

    async def _send(self, version: int) -> None:
        async with self._outgoing.offered() as weights:
            await self._bring(weights, version)

    async def _bring(self, weights: OnePass | str, version: int) -> None:
        unproved = not self._proved or any(name not in self._proved for name, _ in self._engine.taken_in())
        proving = unproved and not self._sharded  # a sharded model computes nothing in one process alone
        reference = HFEngine(self._model, self._engine.tokenizer, slots=1) if proving else None
        expected = await reference.score(self._engine.known) if reference else None

        async def prove() -> None:
            if reference:
                await self._prove(reference)

        await self._engine.load_weights(weights, version, expected=expected, then=prove)

    async def _prove(self, reference: HFEngine) -> None:
        for name, backend in self._engine.taken_in():
            with suppress(Lost, Trouble):  # it is lost to the next request, too; one that stays is asked again
                if name not in self._proved and await tempered(backend, self._engine.known, reference):
                    self._proved.add(name)

    @property
    def _sharded(self) -> bool:
        return any(is_sharded(parameter) for parameter in self._model.parameters())

    def close(self) -> None:
        """Do nothing: the engine removes its files."""


def _barrier() -> None:
    distributed.barrier()


async def tempered(server: Any, prompt: list[int], reference: Any) -> bool:
    """Find out whether a server tells log-probabilities at the temperature asked for; False where both look the same.

    BadConfig where it tells those of temperature 1. `reference`: an engine over the model that the server has.
    """
    answer = await server.generate(prompt, Sampling(temperature=TEMPERATURE, max_tokens=TOKENS), TOKENS)
    ids, ours = [*prompt, *answer.completion.ids], answer.completion.logprobs
    scaled, plain = [(await reference.score(ids, t))[-len(ours) :] for t in (TEMPERATURE, 1.0)]
    if apart(scaled, plain) < DISTINCT:
        return False
    if apart(ours, plain) < apart(ours, scaled):
        raise BadConfig(
            f"{server.url} returns log-probabilities of temperature 1 for a request at {TEMPERATURE}: "
            "serve with --logprobs-mode processed_logprobs"
        )
    return True


async def prove(server: Any, model: Any, tokenizer: Any) -> None:
    """Hold a server to the trainer's model: BadConfig unless it scores at temperature 0.7 as the model does."""
    if not server.accepted:
        await server.qualify(HFEngine(model, tokenizer, slots=1))
