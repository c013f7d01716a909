"""The critic: a linear head on the policy's last hidden states that estimates the remaining return."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agentgym.trainers.data.packing import Batch
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.losses.policy import Sums, total_of
from agentgym.trainers.model.scores import Scores

TARGET = "value_target"
"""Key of `turn.extra` with the critic's target: [output tokens], nan for tokens without a target."""

ERROR, SQUARE = "value_error", "value_target_square"


class Critic(nn.Module):
    """Predict the expected return before each trained token as weight * hidden state / width + bias, both initially 0.

    `lr` is approximately the largest change of a value in one update, for any width. With `policy_weight` 0 the hidden
    states are detached, so the critic does not affect the policy; above 0 the value loss, times this weight, is part of
    the policy's loss. `clip` above 0 limits how far a value moves from its value before the update, as in PPO. All
    processes have identical critics.
    """

    def __init__(self, accelerator: Any, width: int, *, lr: float, policy_weight: float, clip: float) -> None:
        super().__init__()
        self.accelerator, self.policy_weight, self.clip = accelerator, policy_weight, clip
        self.weight = nn.Parameter(torch.zeros(width, device=accelerator.device))
        self.bias = nn.Parameter(torch.zeros((), device=accelerator.device))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=0.0)

    def forward(self, scores: Scores) -> Tensor:
        """Return the values [trained], in float32.

        Raises:
            ValueError: `scores` has no hidden states.
        """
        if scores.states is None:
            raise ValueError("a critic needs the hidden states: make the Scorer with states=True")
        states = scores.states if self.policy_weight else scores.states.detach()
        return states.float() @ self.weight / len(self.weight) + self.bias

    def loss(self, scores: Scores, batch: Batch, total: float) -> tuple[Tensor, Sums]:
        """Return a micro-batch's share of 1/2 mean max((V - T)^2, (clip(V, V_old +- clip) - T)^2), and its metrics.

        PPO's value loss as in verl; with `clip` 0, the second square is left out. The mean is over the update's `total`
        tokens with a target, in all processes.
        The loss is a scalar, in squared units of the return, times `policy_weight` if that is above 0.
        """
        values = self(scores)
        targets = batch.extra.get(TARGET)
        if targets is None:  # an idle micro-batch
            return 0.0 * values.sum(), {}
        known = ~targets.isnan()
        values, targets = values[known], targets[known]
        errors = plain = (values - targets).square()
        if self.clip:
            old = batch.extra["values"][known]
            clipped = old + (values - old).clamp(-self.clip, self.clip)
            errors = torch.maximum(errors, (clipped - targets).square())
        sums = {"value_loss": errors / 2, "value_target": targets, ERROR: plain, SQUARE: targets.square()}
        scale = self.policy_weight or 1.0
        return scale * errors.sum() / (2 * max(total, 1)), {name: total_of(v.detach()) for name, v in sums.items()}

    def update(self, grad_clip: float) -> None:
        """Take an optimizer step with the gradient averaged over all processes."""
        for parameter in self.parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.accelerator.reduce(
                gradient, "mean"
            )  # each gradient is multiplied by the number of processes
        nn.utils.clip_grad_norm_(self.parameters(), grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def saved(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""
        return {"head": self.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.load_state_dict(saved["head"])
        self.optimizer.load_state_dict(saved["optimizer"])


def taught(row: Segment) -> int:
    """Return the number of trained tokens in a row for which the critic has a target."""
    return int((row.mask & ~np.isnan(row.extra[TARGET])).sum()) if TARGET in row.extra else 0


def explained(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics with the mean squares replaced by `value_explained`, 1 - mean (V - T)^2 / variance of T.

    Without variance, `value_explained` is left out.
    """
    error, square = metrics.pop(ERROR, 0.0), metrics.pop(SQUARE, None)
    if square is not None and (spread := square - metrics["value_target"] ** 2) > 0:
        metrics["value_explained"] = 1 - error / spread
    return metrics


def targets_of(rows: Sequence[Segment]) -> int:
    """Return the number of trained tokens in rows for which the critic has a target."""
    return sum(taught(row) for row in rows)


def teaches(row: Segment, by_present: bool) -> bool:
    """Return True if a row contributes to the update by its advantages, its value targets or its factors (`chosen`).

    `by_present`: the loss computes factors from the current log-probabilities, so a row without advantages contributes
    too, unless its factors are already stored and all 0.
    """
    pulled = by_present and ("chosen" not in row.extra or bool(np.nan_to_num(row.extra["chosen"]).any()))
    return bool(row.advantages.any()) or pulled or bool(targets_of([row]))
