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
"""The trainer's minus the engine's log-probabilities, [tokens]."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Metrics of one optimizer step in this process."""

    sums: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Metrics: name -> [2] = (sum, count); `loss` is the minimized total, with count 1."""
    gaps: Sequence[Tensor] = ()
    """The trainer's minus the engine's log-probabilities before this update, [trained] per micro-batch."""
    grad_norm: float | None = None


@dataclass(slots=True)
class UpdateMetrics:
    """Accumulated metrics of a step's updates.

    The mismatch of engine and trainer is measured before the first update, while both have the same weights: over all
    tokens if the trainer scored them before several updates (`gaps`), else over the first mini-batch.
    """

    gaps: Gaps
    """The trainer's minus the engine's log-probabilities: [tokens]."""
    compared: bool
    """True if the trainer scored the rows before the updates, so that `gaps` are known."""
    sums: list[Mapping[str, Tensor]] = field(default_factory=list[Mapping[str, Tensor]])
    """Metrics of each update: name -> [2] = (sum, count)."""
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
        metrics["loss"] = metrics.get("loss", 0.0) / len(self.sums)  # missing if no row has an advantage
        metrics |= mismatch(np.concatenate([pair[1] for pair in by_process]))
        return {**metrics, "grad_norm": float(np.mean(self.norms))} if self.norms else metrics
