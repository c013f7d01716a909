"""Sharded weights and optimizer state on disk: each process writes its part, and any number of processes reads them."""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.optim import Optimizer

from agentgym.errors import BadData

PARTS = "parts"
"""The folder in a checkpoint."""


def tensors(model: Any, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Return the trained weights and the optimizers' state by name, this process's part of each."""
    named = {f"weights.{name}": value.detach() for name, value in model.named_parameters() if value.requires_grad}
    for place, parameter, optimizer in _updated(model, optimizers):
        for key, value in optimizer.state.get(parameter, {}).items():
            named[f"{place}.{key}"] = value
    return named


def save(folder: Path, model: Any, optimizers: Sequence[Optimizer]) -> None:
    """Write them, which all processes do together; the folder is whole when it returns in all of them."""
    dcp.save(tensors(model, optimizers), checkpoint_id=folder)


def load(folder: Path, model: Any, optimizers: Sequence[Optimizer]) -> None:
    """Take them over, whatever number of processes wrote them; BadData for a folder that holds something else."""
    try:
        saved = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        for place, parameter, optimizer in _updated(model, optimizers):
            for name, about in saved.items():
                if name.startswith(f"{place}.") and isinstance(about, TensorStorageMetadata):
                    optimizer.state[parameter][name.removeprefix(f"{place}.")] = _empty(about, parameter)
        with torch.no_grad():
            dcp.load(tensors(model, optimizers), checkpoint_id=folder)
    except Exception as error:  # torch raises many types for a damaged folder
        raise BadData(
            f"{folder}: damaged checkpoint ({type(error).__name__}: {error}); remove its folder to use an earlier one"
        ) from error


def _updated(model: Any, optimizers: Sequence[Optimizer]) -> list[tuple[str, Tensor, Optimizer]]:
    """Return the parameters that optimizers update, with the beginning of their names in a checkpoint."""
    names = {id(value): name for name, value in model.named_parameters()}
    return [
        (f"optimizers.{number}.{names[id(parameter)]}", parameter, optimizer)
        for number, optimizer in enumerate(optimizers)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]


def _empty(about: TensorStorageMetadata, parameter: Tensor) -> Tensor:
    """Return where a saved tensor goes: sharded like its parameter, or, of another shape (a count of steps), whole."""
    dtype = about.properties.dtype
    if about.size == parameter.shape:
        return torch.zeros_like(parameter, dtype=dtype)
    return torch.zeros(about.size, dtype=dtype)
