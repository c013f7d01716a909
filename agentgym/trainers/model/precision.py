"""Number formats of the training step, fp32 masters of the weights, and the memory that both need."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from agentgym.errors import BadConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Bytes:
    """Bytes per trainable parameter in the training step; a frozen parameter needs only `weights`."""

    weights: float
    """Weights in the model's compute format, without the copy of an engine."""
    masters: float
    """fp32 master weights; 0 if the model's weights are fp32 themselves."""
    gradients: float
    """Gradients summed over micro-batches, in fp32."""
    state: float
    """Optimizer state: averages of the gradients and, except with Muon, of their squares."""
    update: float
    """Temporary memory of an update, after the activations are freed."""

    @property
    def resident(self) -> float:
        """Bytes per parameter during the forward and backward passes."""
        return self.weights + self.masters + self.gradients + self.state


def bytes_per_parameter(precision: str, optimizer: str = "adamw", *, muon: bool = False, fused: bool = True) -> Bytes:
    """Return the bytes per trainable parameter under `fp32` or `bf16`.

    `muon`: for a matrix that Muon updates, with one average per parameter instead of two. `fused`: AdamW on a GPU,
    which makes no temporary tensors. `adamw8bit` stores one fp32 scale per block of 256 numbers; tensors with fewer
    than 4,096 numbers or an incomplete block stay in fp32.
    """
    low = precision == "bf16"
    state = 4.0 if muon else {"adamw": 8.0, "adamw8bit": 2.0 * (1 + 4 / 256)}[optimizer]
    update = 4.0 if muon or (optimizer == "adamw" and not fused) else 0.0
    return Bytes(weights=2.0 if low else 4.0, masters=4.0 if low else 0.0, gradients=4.0, state=state, update=update)


def resolve(precision: str, device: torch.device) -> str:
    """Return `fp32` or `bf16`; `auto` is bf16 on a GPU that supports it.

    Raises:
        BadConfig: bf16 is requested and the GPU does not support it.
    """
    capable = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bf16" and device.type == "cuda" and not capable:
        raise BadConfig("precision 'bf16': this GPU does not compute in bfloat16; take 'fp32'")
    if precision == "auto":
        return "bf16" if capable else "fp32"
    return precision


class MasterWeights:
    """The fp32 weights of a bf16 model, which accumulate gradients and receive updates.

    A bf16 weight has 8 bits of precision: it would lose every update below 1/512 of its value, and a sum would lose the
    small share of a micro-batch. Weights that are already fp32 in the model (adapters may be) are their own masters.
    """

    def __init__(self, model: nn.Module, *, early: bool = True) -> None:
        """Make the masters; with `early`, for one process, each gradient moves to its master as soon as it is computed."""
        self.pairs: list[tuple[str, nn.Parameter, nn.Parameter]] = []
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                single = weight.dtype == torch.float32
                master = weight if single else nn.Parameter(weight.detach().float())
                self.pairs.append((name, weight, master))
                if early and not single:
                    weight.register_post_accumulate_grad_hook(partial(_take, master))

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the masters under the model's names."""
        return ((name, master) for name, _, master in self.pairs)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the masters."""
        return (master for _, _, master in self.pairs)

    def collect(self) -> None:
        """Add the gradients of a backward pass to the masters' gradients, and free the model's."""
        for _, own, master in self.pairs:
            if own is not master and own.grad is not None:
                _take(master, own)

    @torch.no_grad()
    def reduce(self, processes: int) -> None:
        """Average each master's gradient over all processes; call it only if no wrapper has reduced the gradients."""
        for master in self.parameters():
            if master.grad is None:  # not used in this process, such as an expert that was not chosen
                master.grad = torch.zeros_like(master)
            dist.all_reduce(master.grad)
            master.grad.div_(processes)

    @torch.no_grad()
    def publish(self) -> None:
        """Copy the masters, rounded, to the model's weights."""
        for _, own, master in self.pairs:
            if own is not master:
                own.copy_(master)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the masters by name, for a checkpoint.

        A master has its parameter's shape, `[*shape]`, in float32.
        """
        return {name: master.detach() for name, own, master in self.pairs if own is not master}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Load the masters from a checkpoint; the model's weights already equal the rounded masters."""
        for name, own, master in self.pairs:
            if own is not master:
                master.copy_(state[name])


def _take(master: Tensor, own: Tensor) -> None:
    if own.grad is None:
        return
    if master.grad is None:
        master.grad = own.grad.float()
    else:
        master.grad.add_(own.grad)
    own.grad = None


def masters(model: nn.Module, precision: str, processes: int) -> MasterWeights | None:
    """Return the masters of a bf16 model; None in fp32, where the optimizer updates the model's weights."""
    return MasterWeights(model, early=processes == 1) if precision == "bf16" else None
