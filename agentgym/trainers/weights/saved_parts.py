"""Sharded weights and optimizer state on disk: each process writes its part, and any number of processes reads them."""

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
"""The folder in a checkpoint."""
FAILURES = (Exception, CheckpointException)
"""What torch raises; what went wrong in any process comes to all as a CheckpointException, which is no Exception."""


def tensors(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Return the trained weights and the optimizers' state by name, this process's part of each."""
    named = {f"weights.{name}": value.detach() for name, value in model.named_parameters() if value.requires_grad}
    for place, parameter, optimizer in _updated(model, optimizers):
        for key, value in optimizer.state.get(parameter, {}).items():
            named[f"{place}.{key}"] = value
    return named


class PartWriter:
    """Writes parts to folders in a thread, one checkpoint after the other; the processes talk by a group of their own."""

    def __init__(self) -> None:
        self._group = cast("dist.ProcessGroup", dist.new_group(backend="gloo"))
        self._under_way: tuple[Path, Future[object]] | None = None

    def begin(self, folder: Path, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Copy the values and begin to write them; all processes come here, and what was begun before ends first.

        State in 8 bits, which torch cannot copy so, is written before this returns.
        """
        self.done(wait=True)
        values = tensors(model, optimizers)
        if all(type(getattr(value, "_local_tensor", value)) is Tensor for value in values.values()):
            self._under_way = (
                folder,
                cast("Future[object]", async_save(values, checkpoint_id=folder, process_group=self._group)),
            )
        else:
            try:
                save_now(values, checkpoint_id=folder, process_group=self._group)
            except FAILURES as error:
                raise _not_written(folder, error) from error

    def done(self, *, wait: bool) -> bool:
        """Return whether this process's part is written, and everything if it is so in all; BadData where it failed."""
        if self._under_way is None:
            return True
        folder, writing = self._under_way
        if not wait and not writing.done():
            return False
        self._under_way = None
        try:
            writing.result()
        except FAILURES as error:
            raise _not_written(folder, error) from error
        return True


def load(folder: Path, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
    """Take them over, whatever number of processes wrote them; BadData for a folder that holds something else."""
    try:
        saved = FileSystemReader(folder).read_metadata().state_dict_metadata
        for number, optimizer in enumerate(optimizers):
            if any(name.startswith(f"optimizers.{number}.") for name in saved):
                _step_without_gradient(optimizer)
        with torch.no_grad():
            read_parts(tensors(model, optimizers), checkpoint_id=folder)
    except FAILURES as error:
        raise BadData(f"{folder}: damaged checkpoint ({_said(error)}); remove its folder to use an earlier one") from error


def _not_written(folder: Path, error: BaseException) -> BadData:
    return BadData(
        f"checkpoint {folder.parent} could not be written ({_said(error)}). The earlier ones are intact: free space, then "
        "continue with --resume"
    )


def _said(error: BaseException) -> str:
    """Return what went wrong in a line, without the stacks of the processes it went wrong in."""
    if not isinstance(error, CheckpointException):
        return f"{type(error).__name__}: {error}"
    return "; ".join(f"process {rank}: {type(why).__name__}: {why}" for rank, (why, _) in error.failures.items())


def _step_without_gradient(optimizer: Optimizer) -> None:
    """Make an optimizer's state in its own form, for what is saved to be copied into; weights are loaded afterwards."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _updated(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[tuple[str, Tensor, Optimizer]]:
    """Return the parameters that optimizers update, with the beginning of their names in a checkpoint."""
    names = {id(value): name for name, value in model.named_parameters()}
    return [
        (f"optimizers.{number}.{names[id(parameter)]}", parameter, optimizer)
        for number, optimizer in enumerate(optimizers)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
