"""Metrics of the updates of a step, over all updates and processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym.trainers.learners.critic import explained
from agentgym.trainers.losses.policy import Sums, add_sums, means
from agentgym.trainers.run.metrics import mismatch

Gaps = npt.NDArray[np.float32]
"""Log-probabilities of the trainer minus the engine's, [tokens]."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Metrics of one optimizer step in this process."""

    sums: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """By metric: [2] = (sum, count); `loss` is the total that was minimized, and 1."""
    gaps: Sequence[Tensor] = ()
    """Log-probabilities of the trainer minus the engine's before this update, [tokens] per micro-batch."""
    grad_norm: float | None = None


@dataclass(slots=True)
class UpdateMetrics:
    """The metrics of a step's updates so far.

    The mismatch of engine and trainer is that before the first update, while both hold the same weights: over every token
    where the trainer's scores were computed ahead of several updates (`gaps`), else over the first mini-batch.
    """

    gaps: Gaps
    compared: bool
    """Whether the trainer's scores were computed ahead, and `gaps` are known."""
    sums: list[Mapping[str, Tensor]] = field(default_factory=list[Mapping[str, Tensor]])
    norms: list[float] = field(default_factory=list[float])

    def add(self, updated: UpdateResult) -> None:
        """Add the metrics of one update."""
        if not self.sums and not self.compared and updated.gaps:
            self.gaps = torch.cat(list(updated.gaps)).float().cpu().numpy()
        self.sums.append(updated.sums)
        if updated.grad_norm is not None:
            self.norms.append(updated.grad_norm)

    def reduce(self, gather: Callable[[list[Any]], list[Any]]) -> dict[str, float]:
        """Return the means over all updates and processes; {} if no process updated anything.

        Means of means and quantiles of quantiles would be wrong, so sums and gaps are gathered.
        """
        if not self.sums:
            return {}
        own: Sums = {name: pair.cpu() for name, pair in add_sums(self.sums).items()}
        by_process: list[tuple[Sums, Gaps]] = gather([(own, self.gaps)])
        metrics = explained(means(add_sums(pair[0] for pair in by_process)))
        metrics["loss"] = metrics.get("loss", 0.0) / len(self.sums)  # none where no row has an advantage
        metrics |= mismatch(np.concatenate([pair[1] for pair in by_process]))
        return {**metrics, "grad_norm": float(np.mean(self.norms))} if self.norms else metrics
