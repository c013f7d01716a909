"""Code in vLLM's worker processes, which import it as `worker_extension_cls`."""

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
    """Empty: nothing has to be agreed on."""


@dataclass
class _Shard(_base.WeightTransferUpdateInfo):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    path: str


class SharedMemoryTransfer(_base.WeightTransferEngine):
    """A weight-transfer backend of vLLM's that reads safetensors files, in addition to its own `ipc` and `nccl`."""

    init_info_cls = _Init
    update_info_cls = _Shard

    def init_transfer_engine(self, init_info: object) -> None:
        """Do nothing: only paths are sent."""

    def start_weight_update(self) -> None:
        """Prepare layers for weights in checkpoint form, as at the first loading."""
        _forget_packed_experts(self.model)
        served = _names(self.model)  # without layers that share another one's weights
        _reload.initialize_layerwise_reload(self.model)
        self._expected, self._loaded = served & _names(self.model), set[str]()

    def update_weights(self, update_info: dict[str, object]) -> None:
        """Load one file."""
        self.receive_weights(
            self.parse_update_info(update_info)
        )  # vLLM's own version synchronizes a GPU, which may not exist

    def receive_weights(self, update_info: Any) -> None:
        """Load one file.

        Raises:
            BadData: it does not match its message.
        """
        sent: dict[str, Any] = asdict(update_info)
        names: Any = self.model.load_weights(shards.read(sent))
        self._loaded |= set(names or ())

    def finish_weight_update(self) -> None:
        """Make the layers ready for use.

        Raises:
            ValueError: some weights did not come.
        """
        missing = self._expected - self._loaded
        self._expected.clear()
        finalize(self.model, self.model_config)
        if self._loaded and missing and self.model_config.quantization is None:  # like vLLM's check at the first loading
            raise ValueError(f"no weights came for {', '.join(sorted(missing)[:3])} ({len(missing)} in all)")

    def shutdown(self) -> None:
        """Do nothing."""


def _names(model: Any) -> set[str]:
    return {name for name, _ in model.named_parameters()}


_factory.register_engine("shared_memory", SharedMemoryTransfer)


def _end_with(owner: int) -> None:
    """Wait until the process that owns the engine has ended in any way; then end vLLM's, which would survive."""
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
        """Restore every layer after a failed update, with any values, so that the next update can start."""
        worker: Any = self
        with suppress(RuntimeError):  # vLLM itself ends an update when a part fails, and then has none
            worker.finish_weight_update()
        finalize(worker.get_model(), worker.model_config)


def _forget_packed_experts(model: Any) -> None:
    """Have the experts of a mixture prepared again on a CPU.

    On CPUs vLLM 0.32 pads and packs their weights only when it makes their kernel; a reload would replace them by
    unpacked ones, unnoticed if the shapes agree. So the kernels are dropped, and made again with the weights.
    """
    if not _platforms.current_platform.is_cpu():
        return
    for module in model.modules():
        method: Any = getattr(module, "quant_method", None)
        if getattr(method, "moe_kernel", None) is not None:
            method.moe_kernel = None


def finalize(model: Any, model_config: object) -> None:
    """End vLLM's layerwise reload, including layers that share another one's weights.

    vLLM 0.32 prepares a head that shares the embedding's weights when the model is first loaded (on CPUs: packs a copy)
    and leaves it out of a reload, since no tensor of a checkpoint has its name. So every layer that shares an earlier
    one's weight is prepared again, by the method that vLLM gave it; on a GPU that has no effect.
    """
    _reload.finalize_layerwise_reload(model, model_config)
    seen: set[int] = set()
    for module in model.modules():
        own = {value.data_ptr() for value in module.parameters(recurse=False)}
        method = getattr(module, "quant_method", None)
        if own & seen and method is not None:
            method.process_weights_after_loading(module)
        seen |= own
