"""Code that runs in vLLM's worker processes, loaded as `worker_extension_cls`."""

import importlib
import os
import select
import signal
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from agentgym.engines import shards
from agentgym.engines.vllm.transfer import OWNER

# by name, because type checkers resolve `vllm` to this folder
_base = importlib.import_module("vllm.distributed.weight_transfer.base")
_factory = importlib.import_module("vllm.distributed.weight_transfer.factory").WeightTransferEngineFactory
_platforms = importlib.import_module("vllm.platforms")
_reload = importlib.import_module("vllm.model_executor.model_loader.reload")


@dataclass
class _Init(_base.WeightTransferInitInfo):
    """Arguments to set up the transport: none are needed."""


@dataclass
class _Shard(_base.WeightTransferUpdateInfo):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    path: str


class SharedMemoryTransfer(_base.WeightTransferEngine):
    """A weight-transfer backend for vLLM that reads safetensors files, in addition to vLLM's own `ipc` and `nccl`."""

    init_info_cls = _Init
    update_info_cls = _Shard

    def init_transfer_engine(self, init_info: object) -> None:
        """Do nothing: the transport only sends paths, so it needs no setup."""

    def start_weight_update(self) -> None:
        """Prepare the layers to load weights in checkpoint format, as at the first load."""
        _forget_packed_experts(self.model)
        served = _names(self.model)  # without layers that share another one's weights
        _reload.initialize_layerwise_reload(self.model)
        self._expected, self._loaded = served & _names(self.model), set[str]()

    def update_weights(self, update_info: dict[str, object]) -> None:
        """Load one file of weights."""
        self.receive_weights(
            self.parse_update_info(update_info)
        )  # vLLM's own version synchronizes a GPU, which may not exist

    def receive_weights(self, update_info: Any) -> None:
        """Load one file of weights.

        Raises:
            BadData: the file does not match its message.
        """
        sent: dict[str, Any] = asdict(update_info)
        names: Any = self.model.load_weights(shards.read(sent))
        self._loaded |= set(names or ())

    def finish_weight_update(self) -> None:
        """Make the layers ready for inference.

        Raises:
            ValueError: some weights were not sent.
        """
        missing = self._expected - self._loaded
        self._expected.clear()
        finalize(self.model, self.model_config)
        if self._loaded and missing and self.model_config.quantization is None:  # like vLLM's check at the first loading
            raise ValueError(f"no weights came for {', '.join(sorted(missing)[:3])} ({len(missing)} in all)")

    def shutdown(self) -> None:
        """Do nothing: no resources are open."""


def _names(model: Any) -> set[str]:
    return {name for name, _ in model.named_parameters()}


_factory.register_engine("shared_memory", SharedMemoryTransfer)


def _end_with(owner: int) -> None:
    """Wait until the engine's owner process has ended for any reason, then kill this process and its parent in vLLM.

    Do nothing on systems other than Linux.
    """
    above = os.getppid()  # vLLM's scheduler, unless it is this process
    if not hasattr(os, "pidfd_open"):  # not Linux
        return
    with suppress(ProcessLookupError):  # it has ended already
        ended = select.poll()
        ended.register(os.pidfd_open(owner), select.POLLIN)
        ended.poll()
    if above not in (owner, 1):
        with suppress(ProcessLookupError):
            os.kill(above, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if int(os.environ.get(OWNER, os.getpid())) != os.getpid():  # imported by one of vLLM's processes
    threading.Thread(target=_end_with, args=(int(os.environ[OWNER]),), daemon=True).start()


class WorkerExtension:
    """Mixin that vLLM adds to its worker class."""

    def abandon_weight_update(self) -> None:
        """Restore every layer after a failed update, with arbitrary values, so that the next update can start."""
        worker: Any = self
        with suppress(RuntimeError):  # vLLM itself ends an update when a part fails, and then has none
            worker.finish_weight_update()
        finalize(worker.get_model(), worker.model_config)


def _forget_packed_experts(model: Any) -> None:
    """Make vLLM prepare mixture-of-experts weights again on a CPU.

    On CPUs vLLM 0.32 pads and packs these weights only when it creates their kernel. A reload would replace the packed
    weights by unpacked ones, unnoticed if the shapes agree. So drop the kernels: vLLM creates them again from the new
    weights.
    """
    if not _platforms.current_platform.is_cpu():
        return
    for module in model.modules():
        method: Any = getattr(module, "quant_method", None)
        if getattr(method, "moe_kernel", None) is not None:
            method.moe_kernel = None


def finalize(model: Any, model_config: object) -> None:
    """Finish vLLM's layerwise reload, including layers that share their weights with another layer.

    When vLLM 0.32 first loads a model, it prepares an output head that shares the embedding's weights (on CPUs it packs
    a copy). A reload skips that head, since no tensor of a checkpoint has its name. So prepare every layer that shares
    an earlier layer's weights again, by the method that vLLM assigned to it; on a GPU this has no effect.
    """
    _reload.finalize_layerwise_reload(model, model_config)
    seen: set[int] = set()
    for module in model.modules():
        own = {value.data_ptr() for value in module.parameters(recurse=False)}
        method = getattr(module, "quant_method", None)
        if own & seen and method is not None:
            method.process_weights_after_loading(module)
        seen |= own
