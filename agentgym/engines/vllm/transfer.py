"""Weight transfer to a vLLM engine: one sender per transport, all through vLLM's own weight-transfer calls."""

import asyncio
import importlib
import os
import socket
from collections.abc import Coroutine, Iterable
from contextlib import closing
from typing import Any

import torch

from agentgym.engines.shards import SHARD_BYTES, Source, shards
from agentgym.errors import BadConfig

OWNER = "AGENTGYM_VLLM_OWNER"
"""Environment variable with the id of the engine's owner process; when the owner ends, so do vLLM's processes."""
TRANSPORTS = ("shared_memory", "ipc", "nccl")


class Control:
    """Like vLLM's `VLLMWeightSyncClient`, for an engine in this process; called from a thread outside the event loop."""

    def __init__(self, llm: Any) -> None:
        self._llm, self._loop = llm, asyncio.get_running_loop()
        self._base = importlib.import_module("vllm.distributed.weight_transfer.base")

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Tell the workers how the trainer will send weights."""
        self._wait(self._llm.init_weight_transfer_engine(self._base.WeightTransferInitRequest(init_info=init_info)))

    def start_weight_update(self) -> None:
        """Start a weight update."""
        self._wait(self._llm.start_weight_update())

    def update_weights(self, update_info: object) -> None:
        """Pass a part of the weight update to the workers."""
        self._wait(self._llm.update_weights(self._base.WeightTransferUpdateRequest(update_info=update_info)))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Finish the weight update."""
        self._wait(self._llm.finish_weight_update(weight_version))

    def _wait(self, call: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(call, self._loop).result()


class SharedMemorySender:
    """Sends a source through files in shared memory. Works on every device; vLLM has no sender of this kind."""

    def __init__(self, control: Control, source: Source) -> None:
        self._control, self._source = control, source

    def send_weights(self) -> None:
        """Run one complete weight update."""
        send_shards(self._control, self._source)

    def shutdown(self) -> None:
        """Do nothing: no files are left."""


def send_shards(control: Control, source: Source) -> None:
    """Run one weight update through files of limited size in shared memory."""
    with closing(shards(source)) as files:  # deletes the current file after a failure, too
        send_files(control, files)


def send_files(control: Control, messages: Iterable[dict[str, object]]) -> None:
    """Run one weight update from safetensors files, each described by a message."""
    control.start_weight_update()
    for sent in messages:
        control.update_weights(sent)
    control.finish_weight_update()


def check_transport(transport: str) -> None:
    """Check that this machine supports a transport; for `ipc`, also allow vLLM to pickle the messages to its workers.

    Raises:
        BadConfig: the transport is not supported here.
    """
    if transport not in TRANSPORTS:
        raise BadConfig(f"weight_transport is {transport!r}; expected one of {', '.join(TRANSPORTS)}")
    if transport != "shared_memory" and not torch.cuda.is_available():
        raise BadConfig(
            f"weight_transport {transport!r} needs a CUDA device, and this machine has none; use 'shared_memory'"
        )
    if transport == "ipc":  # handles of GPU memory are not JSON; they only go to this process's own children
        os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"


def check_devices(transport: str, trainer: int | None, engine: list[int]) -> None:
    """Check that the transport supports the devices of trainer and engine: GPU indices, or None for a CPU.

    Raises:
        BadConfig: the transport does not support these devices.
    """
    if transport == "ipc" and trainer not in engine:
        where = "a CPU" if trainer is None else f"GPU {trainer}"
        raise BadConfig(
            f"weight_transport 'ipc' shares the memory of one GPU, but the trainer is on {where} and the engine on GPU "
            f"{', '.join(map(str, engine))}; use 'nccl' between GPUs, else 'shared_memory'"
        )
    if transport == "nccl" and (trainer is None or trainer in engine):
        where = "a CPU" if trainer is None else f"GPU {trainer}, which the engine has too"
        raise BadConfig(
            f"weight_transport 'nccl' goes from one GPU to others, but the trainer is on {where}; give the engine separate "
            "GPUs (option device_ids, for example [1]), or use 'ipc' on one GPU"
        )


def sender(transport: str, control: Control, source: Source, workers: int) -> object:
    """Return a sender with `send_weights()` and `shutdown()`; `workers` is the number of vLLM's workers.

    The senders for `ipc` and `nccl` are vLLM's own (`vllm.distributed.weight_transfer`). They pack tensors, so at most
    one buffer of full tensors is in memory. Every trainer process has its own engine, so it is rank 0 of the transfer.
    """
    if transport == "shared_memory":
        return SharedMemorySender(control, source)
    factory = importlib.import_module("vllm.distributed.weight_transfer.factory").WeightTransferTrainerFactory
    return factory.trainer_init(init_info(transport, source, workers), client=control, source=source)


def init_info(transport: str, source: Source, workers: int) -> object:
    """Return the arguments for vLLM's own sender of a transport."""
    module = importlib.import_module(f"vllm.distributed.weight_transfer.{transport}_engine")
    size = max(SHARD_BYTES, *(meta.bytes for meta in source.metadata()))  # a buffer must fit the largest tensor
    if transport == "ipc":
        return module.IPCTrainerInitInfo(rank=0, packed=True, packed_buffer_size_bytes=size)
    where = {"master_address": "127.0.0.1", "master_port": _free_port(), "world_size": 1 + workers}
    return module.NCCLTrainerInitInfo(rank=0, packed=True, packed_buffer_size_bytes=size, **where)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
