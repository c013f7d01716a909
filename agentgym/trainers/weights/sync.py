"""Send new weights to the engine; values cached under old weights are never reused."""

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
from agentgym.engines.fleet.backend import ServerFailure, ServerUnreachable
from agentgym.engines.fleet.weights import mean_difference
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.kinds import EngineKind
from agentgym.engines.shards import shapes
from agentgym.engines.vllm.transfer import Control, check_devices, sender
from agentgym.errors import BadConfig
from agentgym.trainers.weights.gather import adapter, full, is_sharded
from agentgym.trainers.weights.outgoing import SinglePass, adapter_folder, has_adapter, outgoing

TEMPERATURE, TOKENS = 0.5, 16
"""Temperature and number of tokens of the request that checks a server's log-probabilities."""
DISTINCT = 0.05
"""Mean difference of log-probabilities, in nats, above which two temperatures can be distinguished."""


class WeightSync(Protocol):
    """The connection from a trainer's model to the engine that samples from it."""

    async def push(self, version: int) -> None:
        """Make the engine sample from the model's current weights, as policy version `version`.

        Running requests finish first, so no request spans two versions. Every training process must call it.

        Raises:
            Fault: the weights did not arrive (`reason="engine"`).
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def weight_sync(
    model: PreTrainedModel, engine: Any, *, copied: bool = False, device: torch.device | None = None
) -> WeightSync:
    """Return the connection from a model to its engine: shared tensors in this process, or a transport.

    `copied`: the engine in this process has its own copy of the model, which receives new weights. `device`: the device
    that the model will be on, if it is elsewhere until it is sharded.

    Raises:
        BadConfig: the engine accepts no weights.
    """
    kind: EngineKind | None = getattr(engine, "kind", None)  # the user's own engine has none
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
    """Connection to the hf engine in this process, which uses the trainer's tensors or has a copy that is updated."""

    def __init__(self, model: PreTrainedModel, engine: HFEngine) -> None:
        self._model, self._engine = model, engine
        self._dtypes = {name: value.dtype for name, value in model.named_parameters()}

    async def push(self, version: int) -> None:
        """Update the weights, drop every cache and set the version, at a moment when no episode is sampling."""
        await self._engine.load_weights(self._named(), version)

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters; sharded parameters are gathered one at a time, and only if they are trained."""
        for name, value in self._model.named_parameters():
            if not is_sharded(value):
                yield name, value
            elif value.requires_grad:
                yield name, full(value.detach().to(self._dtypes[name]))

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


class Transfer:
    """Connection that sends checkpoint tensors to a vLLM engine by `shared_memory`, `ipc` or `nccl`."""

    def __init__(self, model: PreTrainedModel, engine: Any, device: torch.device) -> None:
        from agentgym.trainers.weights.checkpoint import Checkpoint

        self._engine, self._device = engine, device
        if engine.transport != "shared_memory":
            check_devices(engine.transport, self._device.index, engine.devices)
        self._source = Checkpoint(model)
        self._sender: Any = None

    async def push(self, version: int) -> None:
        """Send every tensor; sharded tensors are gathered one at a time."""
        await self._engine.receive(shapes(self._source), self._send, version)

    def _send(self, control: Control) -> None:
        """Send all weights once; runs in a separate thread, which needs its own current device."""
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        try:
            with torch.no_grad():
                if self._sender is None:
                    self._sender = sender(self._engine.transport, control, self._source, self._engine.workers)
                self._sender.send_weights()
        except BaseException:
            self.close()  # reconnect next time
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None


class AdapterFolder:
    """Connection that passes a LoRA adapter to a vLLM engine as a folder in shared memory; base weights are never sent."""

    def __init__(self, model: PreTrainedModel, engine: Any) -> None:
        self._model, self._engine = model, engine

    async def push(self, version: int) -> None:
        """Let the engine read the current adapter; the folder is deleted afterwards."""
        with adapter_folder(self._model, adapter(self._model)) as folder:
            await self._engine.load_weights(folder, version)

    def close(self) -> None:
        """Do nothing: the folder is deleted after each push."""


class FleetTransfer:
    """Connection that sends a model's weights, or its adapter, from rank 0 to a fleet of servers."""

    def __init__(self, model: PreTrainedModel, engine: Any) -> None:
        self._model, self._engine, self._outgoing = model, engine, outgoing(model)
        self._proved: set[tuple[str, int]] = set()

    async def push(self, version: int) -> None:
        """Send the trained weights.

        Until every server has been checked, servers must then score a known text like the model, and use the requested
        temperature. A server counts as checked once the model's own scores depend on the temperature. Servers of a
        sharded model are not checked.

        Raises:
            BadConfig: a server ignores the temperature, or refuses the first weights.
        """
        if not distributed.is_initialized():
            await self._send(version)
            return
        was_paused = self._engine.paused
        await self._engine.pause()
        try:
            await asyncio.to_thread(_barrier)  # no requests run on any server
            errors: list[Any] = [None]
            if distributed.get_rank() == 0:
                errors = [await self._sent_state(version)]
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

    async def _sent_state(self, version: int) -> Any:
        """Send the weights; return the engine's state for the other processes, or the error."""
        try:
            await self._send(version)
        except Exception as error:  # the others need to know of any error
            return error
        return self._engine.state()

    async def _send(self, version: int) -> None:
        async with self._outgoing.offered() as weights:
            await self._bring(weights, version)

    async def _bring(self, weights: SinglePass | str, version: int) -> None:
        unproved = not self._proved or any(name not in self._proved for name, _ in self._engine.active())
        proving = unproved and not self._sharded  # a sharded model cannot compute in one process alone
        reference = HFEngine(self._model, self._engine.tokenizer, slots=1) if proving else None
        expected = await reference.score(self._engine.known) if reference else None

        async def prove() -> None:
            if reference:
                await self._prove(reference)

        await self._engine.load_weights(weights, version, expected=expected, then=prove)

    async def _prove(self, reference: HFEngine) -> None:
        for name, backend in self._engine.active():
            with suppress(
                ServerUnreachable, ServerFailure
            ):  # the next request finds it lost; one that stays is checked again
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
    """Return True if a server's log-probabilities use the requested temperature; False if the text does not show it.

    `reference`: an engine with the server's model.

    Raises:
        BadConfig: the log-probabilities are those of temperature 1.
    """
    answer = await server.generate(prompt, Sampling(temperature=TEMPERATURE, max_tokens=TOKENS), TOKENS)
    ids, ours = [*prompt, *answer.completion.ids], answer.completion.logprobs
    scaled, plain = [(await reference.score(ids, t))[-len(ours) :] for t in (TEMPERATURE, 1.0)]
    if mean_difference(scaled, plain) < DISTINCT:
        return False
    if mean_difference(ours, plain) < mean_difference(ours, scaled):
        raise BadConfig(
            f"{server.url} returns log-probabilities of temperature 1 for a request at {TEMPERATURE}: "
            "serve with --logprobs-mode processed_logprobs"
        )
    return True


async def prove(server: Any, model: Any, tokenizer: Any) -> None:
    """Check that a server scores like the trainer's model at temperature 0.7, unless an earlier check has passed.

    Raises:
        BadConfig: the server's scores differ.
    """
    if not server.accepted:
        await server.qualify(HFEngine(model, tokenizer, slots=1))
