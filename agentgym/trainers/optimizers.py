"""The optimizers of a run: AdamW for everything, or Muon for the matrices inside the layers and AdamW for the rest."""

# torch's optimizers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any

import torch

from agentgym.trainers.muon import Muon

MUON_SHARE = 5.0  # Muon's step is orthogonal, so its rate is that of AdamW times about this at small widths


def optimizers(model: Any, lr: float, *, muon: bool, weight_decay: float = 0.0) -> list[Any]:
    """Return optimizers for a model's trainable parameters; a group's `share` multiplies the scheduled learning rate."""
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not muon:
        return [torch.optim.AdamW([p for _, p in parameters], lr=lr, weight_decay=weight_decay, foreach=True)]
    inner = [p for name, p in parameters if p.ndim == 2 and "embed" not in name and "lm_head" not in name]
    chosen = {id(p) for p in inner}
    rest = [p for _, p in parameters if id(p) not in chosen]
    return [
        Muon([{"params": inner, "share": MUON_SHARE}], lr=MUON_SHARE * lr),
        torch.optim.AdamW(rest, lr=lr, weight_decay=weight_decay, foreach=True),
    ]
