"""Preparation of a model's layers for training: gradient checkpointing and compilation."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from agentgym.errors import BadConfig


def prepare(model: PreTrainedModel, *, gradient_checkpointing: bool, compiled: bool) -> tuple[torch.nn.Module, ...]:
    """Prepare a model's layers and return the layers whose activations `recomputed` recomputes in the backward pass.

    Without gradient checkpointing, there are none. Layers are compiled one by one: they are alike, so this is much
    faster than compiling the whole model.

    Raises:
        BadConfig: the model does not support gradient checkpointing.
    """
    if compiled:
        for layer in cast("Iterable[torch.nn.Module]", model.get_decoder().layers):
            layer.compile(dynamic=True)
    if not gradient_checkpointing:
        return ()
    checkpointed = tuple(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    if not checkpointed or not model.supports_gradient_checkpointing:
        raise BadConfig(
            f"gradient_checkpointing: {type(model).__name__} has no layers that can be computed again; leave it off"
        )
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return checkpointed


@contextmanager
def recomputed(layers: Sequence[torch.nn.Module]) -> Generator[None]:
    """Run the block's forward pass so that only the inputs of these layers are stored.

    transformers checkpoints a layer only in training mode. The mode is set on the layers themselves and not on their
    children, so that dropout stays off, and reset afterwards, so that an engine that shares the model keeps its cache.
    """
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
