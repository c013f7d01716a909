"""Gather sharded tensors, one at a time."""

from torch import Tensor, nn


def full(value: Tensor) -> Tensor:
    """Return the whole tensor; all processes gather a sharded tensor (DTensor) together.

    The result has the tensor's global shape, `[*shape]`.
    """
    gather = getattr(value, "full_tensor", None)
    return value if gather is None else gather()


def is_sharded(value: Tensor) -> bool:
    """Return True if this process has only a part of a tensor."""
    return hasattr(value, "full_tensor")


def like(whole: Tensor, value: Tensor) -> Tensor:
    """Return the tensor `whole`, which every process has, sharded like `value`.

    The result has the global shape of `whole`, `[*shape]`.
    """
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(value, DTensor):
        return whole
    return distribute_tensor(whole, value.device_mesh, value.placements, src_data_rank=None)


def adapter(model: nn.Module) -> dict[str, Tensor]:
    """Return the trained tensors of a model with adapters by name; sharded tensors are gathered.

    A tensor has its parameter's global shape, `[*shape]`.
    """
    return {name: full(value.detach()) for name, value in model.named_parameters() if value.requires_grad}
