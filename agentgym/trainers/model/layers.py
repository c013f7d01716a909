"""What is done to the layers of a model for the training step: computed again in the backward pass, or compiled."""

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
    """Prepare a model's layers and return those that `recomputed` has compute again in the backward pass.

    Layers are compiled one by one, which takes the compiler far less time than the whole model, as they are alike.
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
    """Run a forward pass that keeps only the inputs of these layers.

    The library checkpoints a layer in training mode alone. The mode is set on the layers themselves and not on what is in
    them, so that dropout stays off, and taken back, so that an engine that shares the model keeps its cache.
    """
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
