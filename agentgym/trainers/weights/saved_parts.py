"""Sharded weights and optimizer state on disk: each process writes its part, and any number of processes can read it."""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as read_parts
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.state_dict_saver import save as save_now
from torch.optim import Optimizer

from agentgym.errors import BadData

PARTS = "parts"
"""Name of the folder with the parts in a checkpoint."""
FAILURES = (Exception, CheckpointException)
"""Exceptions that torch raises. A failure in one process reaches all as CheckpointException, which is a BaseException."""


def tensors(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Return this process's part of the trained weights and of the optimizers' state, by name.

    A tensor has its parameter's local shape, `[*shape]`.
    """
    named = {f"weights.{name}": value.detach() for name, value in model.named_parameters() if value.requires_grad}
    for place, parameter, optimizer in _updated(model, optimizers):
        for key, value in optimizer.state.get(parameter, {}).items():
            named[f"{place}.{key}"] = value
    return named


class PartWriter:
    """Writes parts to folders in a thread, one checkpoint at a time; uses a separate process group."""

    def __init__(self) -> None:
        self._group = cast("dist.ProcessGroup", dist.new_group(backend="gloo"))
        self._pending: tuple[Path, Future[object]] | None = None

    def begin(self, folder: Path, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Copy the values and start to write them; every process must call it. A write in progress is finished first.

        With 8-bit state, which torch cannot copy for a write in a thread, everything is written before this returns.

        Raises:
            BadData: the parts cannot be written, or the write in progress failed.
        """
        self.done(wait=True)
        values = tensors(model, optimizers)
        if all(type(getattr(value, "_local_tensor", value)) is Tensor for value in values.values()):
            self._pending = (
                folder,
                cast("Future[object]", async_save(values, checkpoint_id=folder, process_group=self._group)),
            )
        else:
            try:
                save_now(values, checkpoint_id=folder, process_group=self._group)
            except FAILURES as error:
                raise BadData(_not_written(folder, error)) from error

    def done(self, *, wait: bool) -> bool:
        """Return True if no write that `begin` started is pending in this process.

        `wait`: block until the write has finished. The checkpoint is complete when the result is True in all processes.

        Raises:
            BadData: the write failed.
        """
        if self._pending is None:
            return True
        folder, writing = self._pending
        if not wait and not writing.done():
            return False
        self._pending = None
        try:
            writing.result()
        except FAILURES as error:
            raise BadData(_not_written(folder, error)) from error
        return True


def load(folder: Path, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
    """Load this process's part of weights and optimizer state; any number of processes may have written the folder.

    Raises:
        BadData: the folder is damaged.
    """
    try:
        saved = FileSystemReader(folder).read_metadata().state_dict_metadata
        for number, optimizer in enumerate(optimizers):
            if any(name.startswith(f"optimizers.{number}.") for name in saved):
                _step_without_gradient(optimizer)
        with torch.no_grad():
            read_parts(tensors(model, optimizers), checkpoint_id=folder)
    except FAILURES as error:
        raise BadData(
            f"{folder}: damaged checkpoint ({_described(error)}); remove its folder to use an earlier one"
        ) from error


def _not_written(folder: Path, error: BaseException) -> str:
    return (
        f"checkpoint {folder.parent} could not be written ({_described(error)}). The earlier ones are intact: free "
        "space, then continue with --resume"
    )


def _described(error: BaseException) -> str:
    """Return the error in one line, without the stack traces of other processes."""
    if not isinstance(error, CheckpointException):
        return f"{type(error).__name__}: {error}"
    return "; ".join(f"process {rank}: {type(why).__name__}: {why}" for rank, (why, _) in error.failures.items())


def _step_without_gradient(optimizer: Optimizer) -> None:
    """Create an optimizer's state by a step with zero gradients; saved state and weights are loaded into it afterwards."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _updated(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[tuple[str, Tensor, Optimizer]]:
    """Return (name prefix of the state in a checkpoint, parameter, optimizer) for each parameter that is updated."""
    names = {id(value): name for name, value in model.named_parameters()}
    return [
        (f"optimizers.{number}.{names[id(parameter)]}", parameter, optimizer)
        for number, optimizer in enumerate(optimizers)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
