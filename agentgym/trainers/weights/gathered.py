"""Sharded tensors made whole, one at a time."""

from typing import Any

from torch import Tensor


def full(value: Tensor) -> Tensor:
    """Return a tensor whole: a sharded one (DTensor) is gathered from all processes, which all do it together."""
    gather = getattr(value, "full_tensor", None)
    return value if gather is None else gather()


def is_sharded(value: Tensor) -> bool:
    """Return whether this process holds only a part of a tensor."""
    return hasattr(value, "full_tensor")


def like(whole: Tensor, value: Tensor) -> Tensor:
    """Return a tensor that every process has, sharded as another is."""
    if not is_sharded(value):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, value.device_mesh, value.placements, src_data_rank=None)


def adapter(model: Any) -> dict[str, Tensor]:
    """Return the trained tensors of a model with adapters, whole, by name."""
    return {name: full(value.detach()) for name, value in model.named_parameters() if value.requires_grad}
