"""A model's weights under their checkpoint names, one full tensor at a time, for sending to an engine."""

# torch and transformers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from agentgym.engines.shards import TensorMeta
from agentgym.errors import BadConfig
from agentgym.trainers.weights.gather import full

_LAYER = re.compile(r"^(.*?\.\d+)\.")


class Checkpoint:
    """The weights of a model, under the names and in the shapes that `save_pretrained` writes; tied weights appear once.

    Engines read the published form of a model, while transformers may store it differently: the experts of
    mixture-of-experts layers are stacked in memory and separate in files. Every iteration yields the current values. All
    processes together gather one sharded parameter at a time, or one layer if the files combine parameters of a layer.
    Dtypes are those of the model at construction: if fp32 masters replace weights later, they are still sent in the
    compute dtype. The class implements vLLM's `WeightSource` (`metadata`, iteration).

    Raises:
        BadConfig: the model's files contain tensors made from several layers.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        names = list(self._own())
        self._dtypes = {name: value.dtype for name, value in self._own().items()}
        whole = {name: _meta(value) for name, value in revert_weight_conversion(model, self._empty(names)).items()}
        for groups in ([[name] for name in names], _layers(names)):
            self._metadata = [TensorMeta(name, *_meta(value)) for group in groups for name, value in self._renamed(group)]
            if whole == {meta.name: (meta.dtype, meta.shape) for meta in self._metadata}:
                self._groups = groups
                return
        raise BadConfig(
            f"the files of {type(model).__name__} hold tensors made from several of its layers, which cannot be sent one "
            "by one; train it with the hf engine, unsharded"
        )

    def metadata(self) -> list[TensorMeta]:
        """Return name, dtype and full shape of every tensor, in the order of iteration; nothing is gathered."""
        return self._metadata

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        own = self._own()
        for group in self._groups:
            yield from self._gathered(own, group)  # its frame, with all tensors, is freed before the next

    def _gathered(self, own: dict[str, Tensor], group: list[str]) -> Iterator[tuple[str, Tensor]]:
        converted = revert_weight_conversion(self._model, {name: full(own[name].to(self._dtypes[name])) for name in group})
        yield from converted.items()

    def _renamed(self, group: list[str]) -> list[tuple[str, Tensor]]:
        try:
            return list(revert_weight_conversion(self._model, self._empty(group)).items())
        except Exception:  # a part of tensors that have to be converted together; any error
            return []

    def _own(self) -> dict[str, Tensor]:
        """Return the parameters and persistent buffers by the model's names; tied tensors have only their first name."""
        seen: set[int] = set()
        tensors: dict[str, Tensor] = {}
        for name, value in self._model.state_dict(keep_vars=True).items():
            if id(value) not in seen:
                seen.add(id(value))
                tensors[name] = value.detach()
        return tensors

    def _empty(self, names: list[str]) -> dict[str, Tensor]:
        own = self._own()
        return {name: torch.empty(own[name].shape, dtype=own[name].dtype, device="meta") for name in names}


def _meta(value: Tensor) -> tuple[torch.dtype, tuple[int, ...]]:
    return value.dtype, tuple(value.shape)


def _layers(names: list[str]) -> list[list[str]]:
    """Group names by layer, in order of first appearance; a name outside the layers is its own group."""
    groups: dict[str, list[str]] = {}
    for name in names:
        match = _LAYER.match(name)
        groups.setdefault(match.group(1) if match else name, []).append(name)
    return list(groups.values())
