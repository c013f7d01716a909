"""Muon in fp32: torch's version rounds to bf16, which is ten times slower on a CPU without bf16 arithmetic."""

# torch's optimizers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from agentgym.trainers.weights.gather import full, like

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic iteration of K. Jordan, "Muon" (2024)


class Muon(torch.optim.Optimizer):
    """SGD with momentum whose update matrix is orthogonalized; for the weight matrices inside a network.

    Source: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024). Matrices of the same
    shape are processed together. Every process that has a part of a sharded matrix gathers and orthogonalizes the whole
    matrix.
    """

    def __init__(self, parameters: ParamsT, lr: float = 0.02, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update the parameters from their gradients."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(tuple(parameter.shape), []).append(parameter)
            for (rows, columns), parameters in by_shape.items():
                momenta = [self._momentum(p, p.grad, group["momentum"]) for p in parameters if p.grad is not None]
                directions = orthogonal(torch.stack([full(momentum) for momentum in momenta]))
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.add_(like(direction, parameter), alpha=-scale)

    def _momentum(self, parameter: Tensor, gradient: Tensor, momentum: float) -> Tensor:
        state = self.state[parameter]
        if "average" not in state:
            state["average"] = torch.zeros_like(parameter)
        state["average"].lerp_(gradient, 1 - momentum)
        return torch.lerp(gradient, state["average"], momentum)  # Nesterov


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return matrices [n, rows, columns] with all singular values moved near 1 (0.7 to 1.2), by Newton-Schulz steps."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.transpose(1, 2) if tall else x
