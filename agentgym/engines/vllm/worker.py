"""What runs inside vLLM's worker processes: named to vLLM as `worker_extension_cls`, which imports it there."""

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

# by name, for in this folder a checker takes `vllm` for a file beside this one
_base = importlib.import_module("vllm.distributed.weight_transfer.base")
_factory = importlib.import_module("vllm.distributed.weight_transfer.factory").WeightTransferEngineFactory
_platforms = importlib.import_module("vllm.platforms")
_reload = importlib.import_module("vllm.model_executor.model_loader.reload")


@dataclass
class _Init(_base.WeightTransferInitInfo):
    """Nothing has to be agreed on."""


@dataclass
class _Shard(_base.WeightTransferUpdateInfo):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    path: str


class SharedMemoryTransfer(_base.WeightTransferEngine):
    """A weight-transfer backend of vLLM's that reads safetensors files, beside its own `ipc` and `nccl`."""

    init_info_cls = _Init
    update_info_cls = _Shard

    def init_transfer_engine(self, init_info: object) -> None:
        """Do nothing: a path is all that is sent."""

    def start_weight_update(self) -> None:
        """Let layers take weights in checkpoint form, as when the model was first loaded."""
        _forget_packed_experts(self.model)
        served = _names(self.model)  # without those of layers that share another one's weights
        _reload.initialize_layerwise_reload(self.model)
        self._wanted, self._loaded = served & _names(self.model), set[str]()

    def update_weights(self, update_info: dict[str, object]) -> None:
        """Load one file."""
        self.receive_weights(self.parse_update_info(update_info))  # vLLM's own synchronises a GPU, which may not be there

    def receive_weights(self, update_info: Any) -> None:
        """Load one file; BadData when it is not what was announced."""
        sent: dict[str, Any] = asdict(update_info)
        names: Any = self.model.load_weights(shards.read(sent))
        self._loaded |= set(names or ())

    def finish_weight_update(self) -> None:
        """Put the layers back to work; ValueError when some were left out."""
        missing = self._wanted - self._loaded
        self._wanted.clear()
        finalize(self.model, self.model_config)
        if self._loaded and missing and self.model_config.quantization is None:  # when vLLM's first loading checks, too
            raise ValueError(f"no weights came for {', '.join(sorted(missing)[:3])} ({len(missing)} in all)")

    def shutdown(self) -> None:
        """Do nothing."""


def _names(model: Any) -> set[str]:
    return {name for name, _ in model.named_parameters()}


_factory.register_engine("shared_memory", SharedMemoryTransfer)


def _end_with(owner: int) -> None:
    """Wait until the process that owns the engine has ended, however; then end vLLM's, which would live on."""
    above = os.getppid()  # vLLM's scheduler, unless this process is it
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
    """Mixed into vLLM's worker class by vLLM itself."""

    def abandon_weight_update(self) -> None:
        """After a failed update: make every layer whole again, whatever it holds, so that the next update can begin."""
        worker: Any = self
        with suppress(RuntimeError):  # vLLM ends an update itself when a part of it fails, and then knows of none
            worker.finish_weight_update()
        finalize(worker.get_model(), worker.model_config)


def _forget_packed_experts(model: Any) -> None:
    """Have the experts of a mixture prepared anew, on a CPU.

    There vLLM 0.32 pads and packs their weights only when it makes their kernel; a reload would put bare ones in their
    place, and where the shapes agree nobody would notice. So the kernels are let go, and made again with the weights.
    """
    if not _platforms.current_platform.is_cpu():
        return
    for module in model.modules():
        method: Any = getattr(module, "quant_method", None)
        if getattr(method, "moe_kernel", None) is not None:
            method.moe_kernel = None


def finalize(model: Any, model_config: object) -> None:
    """End vLLM's layerwise reload, the layers that share another one's weights included.

    vLLM 0.32 prepares a head that shares the embedding's weights when the model is first loaded (on CPUs: packs a copy)
    and leaves it out of a reload, since no tensor of a checkpoint bears its name. So every layer whose weight is that of
    an earlier one is prepared again, by the method that vLLM gave it; on a GPU that does nothing.
    """
    _reload.finalize_layerwise_reload(model, model_config)
    seen: set[int] = set()
    for module in model.modules():
        own = {value.data_ptr() for value in module.parameters(recurse=False)}
        method = getattr(module, "quant_method", None)
        if own & seen and method is not None:
            method.process_weights_after_loading(module)
        seen |= own
