"""Linear layers, with or without a LoRA adapter, in the form that the hf engine's fast path uses."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Linear(NamedTuple):
    """`x W^T + bias`, plus `x down^T up^T` if an adapter is active; the adapter's scale is in `up`."""

    weight: Tensor  # [out, in]
    bias: Tensor | None  # [out]
    down: Tensor | None = None  # [rank, in]
    up: Tensor | None = None  # [out, rank]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs [tokens, out] for inputs [tokens, in]."""
        y = F.linear(x, self.weight, self.bias)
        if self.down is None or self.up is None:
            return y
        return torch.addmm(y, F.linear(x, self.down), self.up.T)


def readable(module: Any) -> bool:
    """Return True if `read` supports a module: a linear layer, or plain LoRA (not DoRA and similar) on a linear layer."""
    if type(module) is torch.nn.Linear:
        return True
    plain = _adapted(module) and type(module.base_layer) is torch.nn.Linear and not module.lora_variant
    return plain and all(part.bias is None for part in module.lora_B.values())


def read(module: Any) -> Linear:
    """Return a linear layer's weights, and a copy of its active, unmerged adapters, scaled and in the layer's precision."""
    plain = Linear(module.weight, module.bias)
    if not _adapted(module) or module.disable_adapters or module.merged:
        return plain
    active = [name for name in module.active_adapters if name in module.lora_A]
    if not active:
        return plain
    down = torch.cat([module.lora_A[name].weight for name in active])
    up = torch.cat([module.lora_B[name].weight * module.scaling[name] for name in active], dim=1)
    return plain._replace(down=down.to(plain.weight.dtype), up=up.to(plain.weight.dtype))


def fused(parts: list[Linear]) -> Linear:
    """Merge layers that have the same input into one layer with concatenated outputs."""
    biases = [part.bias for part in parts if part.bias is not None]
    whole = Linear(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)
    if all(part.down is None for part in parts):
        return whole
    none = whole.weight.new_zeros
    downs = [none(0, part.weight.shape[1]) if part.down is None else part.down for part in parts]
    ups = [none(part.weight.shape[0], 0) if part.up is None else part.up for part in parts]
    return whole._replace(down=torch.cat(downs), up=torch.block_diag(*ups))


def _adapted(module: object) -> bool:
    kind = type(module)
    return kind.__module__ == "peft.tuners.lora.layer" and kind.__name__ == "Linear"  # without importing peft
