"""Optimizers of a run: AdamW for everything, or Muon for the matrices inside the layers and AdamW for the rest."""

# torch's optimizers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
from collections.abc import Iterator
from typing import Protocol

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from agentgym.errors import MissingExtra, how_to_install
from agentgym.trainers.learners.muon import Muon

MUON_SHARE = 5.0  # Muon's updates are orthogonal: at small widths it needs about this multiple of AdamW's learning rate


class HasParameters(Protocol):
    """Anything with named parameters, such as a model or its masters."""

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]: ...


def optimizers(
    model: HasParameters, lr: float, *, muon: bool, weight_decay: float = 0.0, kind: str = "adamw"
) -> list[Optimizer]:
    """Return optimizers for a model's trainable parameters: AdamW, and with `muon` also Muon for matrices in the layers.

    `kind`: `adamw`, or `adamw8bit` (AdamW with its state in 8 bits). Muon's parameter group has the key `share`, 5: its
    learning rate is `lr` times `share`.
    """
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not muon:
        return [_adamw([p for _, p in parameters], lr, weight_decay, kind)]
    inner = [p for name, p in parameters if p.ndim == 2 and "embed" not in name and "lm_head" not in name]
    in_muon = {id(p) for p in inner}
    rest = [p for _, p in parameters if id(p) not in in_muon]
    return [Muon([{"params": inner, "share": MUON_SHARE}], lr=MUON_SHARE * lr), _adamw(rest, lr, weight_decay, kind)]


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """Set each parameter group's learning rate to `lr` times the group's `share` (by default 1)."""
    for group in optimizer.param_groups:
        value = lr * group.get("share", 1.0)
        if isinstance(group["lr"], torch.Tensor):  # a compiled optimizer reads this tensor
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def _adamw(parameters: list[Parameter], lr: float, weight_decay: float, kind: str) -> Optimizer:
    if kind == "adamw8bit":
        try:
            torchao = importlib.import_module("torchao.optim")
        except ImportError as error:
            raise MissingExtra(f"optimizer 'adamw8bit' needs torchao: {how_to_install('adam8bit')}") from error
        return torchao.AdamW8bit(parameters, lr=lr, weight_decay=weight_decay)
    fused = bool(parameters) and all(p.device.type == "cuda" for p in parameters)  # fused makes no temporary tensors
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=weight_decay, fused=fused, foreach=not fused)
