"""A device that is not here: tensors of their own type over numbers in memory, which refuse to meet tensors of the host.

Code that runs on it finds out, without a GPU, where it leaves a tensor behind. Import this before agentgym, in a process of
its own: torch has one such device a process, and its tensors cannot be made in inference mode. As on a GPU, a tensor of the
host without dimensions may meet any other, and so may indices; NumPy cannot look at what is on the card.
"""

from collections import Counter
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

torch.inference_mode = torch.no_grad
torch.__future__.set_swap_module_params_on_conversion(True)  # else `to` unties weights that modules share
DEVICE: Any = None  # of a torch that cannot have one

waits: Counter[str] = Counter()
"""How often the host read a value from the card, and so waited for all work under way, by operation."""

_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
_CROSSES = {"_to_copy", "copy_"}
_READS = {"_local_scalar_dense", "nonzero", "equal"}
_tensor = torch.tensor


class _Module(getattr(backend_registration, "_DummyBackendModule", object)):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class OnCard(torch.Tensor):
    """A tensor that says it is on the card; `inner` has its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: Any, inner: torch.Tensor) -> "OnCard":
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        tensor.inner = inner
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})

    def tolist(self) -> Any:
        waits["tolist"] += 1
        return self.inner.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("NumPy cannot look at a tensor on the card; call cpu() first")

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
        return _tensor(data, dtype=dtype or self.dtype).to(device or self.device)


class Card(TorchDispatchMode):
    """While it is on, tensors can be made on the card."""

    def __enter__(self) -> Any:
        torch.tensor = _made
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        torch.tensor = _tensor
        super().__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _made(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
    made = _tensor(data, **options)
    return made if device is None else made.to(device)


def _run(function: Any, args: Any, kwargs: Any) -> Any:
    name = function._schema.name.partition("::")[2]
    leaves = tree_leaves((args, kwargs))
    cards = [leaf for leaf in leaves if isinstance(leaf, OnCard)]
    hosts = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not isinstance(leaf, OnCard) and leaf.dim()]
    if cards and hosts and name not in _INDEXED | _CROSSES:
        raise RuntimeError(f"{function}: expected all tensors on one device; on the host: {[tuple(t.shape) for t in hosts]}")
    device = kwargs.get("device")
    to_card = bool(cards) if device is None else torch.device(device).type == "card"
    if name == "copy_":
        to_card = isinstance(args[0], OnCard)
    if cards and (name in _READS or (name in _CROSSES and not to_card)):
        waits[name] += 1
    plain_args, plain = tree_map(lambda leaf: leaf.inner if isinstance(leaf, OnCard) else leaf, (args, kwargs))
    if device is not None and to_card:
        plain["device"] = "cpu"
    out = function(*plain_args, **plain)
    if not function._schema.returns:
        return None
    if name.endswith("_") and function._schema.is_mutable:
        return args[0]
    known = {id(card.inner): card for card in cards}

    def wrapped(leaf: Any) -> Any:
        if not to_card or not isinstance(leaf, torch.Tensor) or isinstance(leaf, OnCard):
            return leaf
        return known[id(leaf)] if id(leaf) in known else OnCard(leaf)

    return kwargs["out"] if "out" in kwargs else tree_map(wrapped, out)


if hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    backend_registration._setup_privateuseone_for_python_backend("card", backend_module=_Module())
    DEVICE = torch.device("card", 0)
