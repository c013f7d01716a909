"""Shard a model over processes with torch's `fully_shard` (FSDP2), layer by layer."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import copy
from collections.abc import Iterable
from typing import cast

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoModelForCausalLM, PreTrainedModel

from agentgym.trainers.model.attention import choose
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.weights.gather import is_sharded


def shard(
    scorer: nn.Module,
    model: PreTrainedModel,
    device: torch.device,
    processes: int,
    *,
    computes_in: torch.dtype | None = None,
) -> nn.Module:
    """Shard a model's parameters over the processes; return `scorer`, whose forward pass gathers them by layer.

    A layer is whole only while it computes, forward and backward; embedding, last norm and head are whole while the
    scorer computes. The parts move to `device`, where the whole model never has to fit. Trained parts and
    their gradients are float32. `computes_in`: the format of gathered weights; None keeps the format of the parts.
    """
    mesh = init_device_mesh(device.type, (processes,))
    policy = MixedPrecisionPolicy(
        param_dtype=computes_in, reduce_dtype=torch.float32 if computes_in else None, cast_forward_inputs=False
    )
    for layer in cast("Iterable[nn.Module]", model.get_decoder().layers):
        _as_masters(layer)  # one by one: all layers in float32 may not fit where the model was loaded
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    _as_masters(scorer)
    scorer.register_forward_hook(_own)  # before the hook that gathers for the backward pass, which a view would lose
    # gather again for the backward pass: whole weights would be taken for the model's own between two updates
    fully_shard(scorer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    return scorer


def _as_masters(module: nn.Module) -> None:
    """Convert trained weights that are not sharded yet to float32."""
    for weight in module.parameters():
        if weight.requires_grad and not is_sharded(weight):
            weight.data = weight.data.float()


def _own(scorer: nn.Module, inputs: object, scores: Scores) -> Scores:
    """Return scores that are not views, so that a loss may change them in place."""
    del scorer, inputs
    return Scores(*(None if value is None else value.clone() for value in scores))  # type: ignore[arg-type]


def chosen_attention(model: PreTrainedModel, requested: str, device: torch.device, *, shared: bool) -> str:
    """Return the result of `choose` for a small model of the same kind, since no device has the whole model."""
    few = copy.deepcopy(model.config)
    kinds = list(getattr(few.get_text_config(), "layer_types", None) or ())
    layers = max([2, *(kinds.index(kind) + 1 for kind in set(kinds))])
    if layers < few.get_text_config().num_hidden_layers:
        few.get_text_config().num_hidden_layers = layers
        if kinds:
            few.get_text_config().layer_types = kinds[:layers]
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.device(device):
        stand_in = AutoModelForCausalLM.from_config(few, dtype=model.dtype).eval()
    return choose(stand_in, requested, shared=shared, sharded=True)
