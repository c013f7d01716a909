"""A model in parts, one in each process: torch's `fully_shard` (FSDP2), a layer at a time."""

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
    """Leave a part of a model's parameters in this process, and return `scorer`, whose forward pass gathers them by layer.

    A layer is whole only while it computes, forwards and backwards; embedding, last norm and head while the scorer does.
    The parts lie on `device` from then on, where the model never was as a whole. `computes_in`: what gathered weights are
    rounded to; parts that are trained and their gradients are then float32.
    """
    mesh = init_device_mesh(device.type, (processes,))
    policy = MixedPrecisionPolicy(
        param_dtype=computes_in, reduce_dtype=torch.float32 if computes_in else None, cast_forward_inputs=False
    )
    for layer in cast("Iterable[nn.Module]", model.get_decoder().layers):
        _as_masters(layer)  # one after the other: where the model was loaded, there is no room for all in float32
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    _as_masters(scorer)
    scorer.register_forward_hook(_own)  # before the hook that gathers for the backward pass: it would be lost with a view
    # gathered again for the backward pass: what stays whole would be taken for the model's own between two updates
    fully_shard(scorer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    return scorer


def _as_masters(module: nn.Module) -> None:
    """Make the weights float32 that are trained and not sharded yet."""
    for weight in module.parameters():
        if weight.requires_grad and not is_sharded(weight):
            weight.data = weight.data.float()


def _own(scorer: nn.Module, inputs: object, scores: Scores) -> Scores:
    """Return scores that are views of nothing, so that a loss may change them in place."""
    del scorer, inputs
    return Scores(*(None if value is None else value.clone() for value in scores))  # type: ignore[arg-type]


def chosen_attention(model: PreTrainedModel, asked: str, device: torch.device, *, shared: bool) -> str:
    """Return what `choose` takes for a model of the same kind with few layers, since this one is whole on no device."""
    few = copy.deepcopy(model.config)
    kinds = list(getattr(few.get_text_config(), "layer_types", None) or ())
    layers = max([2, *(kinds.index(kind) + 1 for kind in set(kinds))])
    if layers < few.get_text_config().num_hidden_layers:
        few.get_text_config().num_hidden_layers = layers
        if kinds:
            few.get_text_config().layer_types = kinds[:layers]
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.device(device):
        stand_in = AutoModelForCausalLM.from_config(few, dtype=model.dtype).eval()
    return choose(stand_in, asked, shared=shared, sharded=True)
