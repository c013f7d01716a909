"""Means and deviations by pool (such as a role) over a step's episodes, for credits that compare across groups."""

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.trainers.credit.interface import Floats
from agentgym.trainers.seam import Processes


def spreads(
    scores: Sequence[tuple[str, Sequence[float]]], run: Processes | None, ddof: int
) -> Mapping[str, tuple[float, float]]:
    """Return each pool's mean and standard deviation over all processes; the deviation of a single score is 0."""
    pools: dict[str, list[float]] = {}
    own = [(pool, [float(score) for score in values]) for pool, values in scores]
    for pool, values in own if run is None else run.gather(own):
        pools.setdefault(pool, []).extend(values)
    return {
        pool: (float(np.mean(values)), float(np.std(values, ddof=ddof)) if len(values) > ddof else 0.0)
        for pool, values in pools.items()
    }


def standing(scores: Floats, pool: tuple[float, float], *, norm: str, eps: float) -> Floats:
    """Return `scores` minus the mean in `pool` (mean, std), divided by (std + eps) if `norm` is `std`; 0 if std is 0.

    `scores` and the result are [scores].
    """
    mean, std = pool
    if std < 1e-12:
        return np.zeros_like(scores)
    return (scores - mean) / (std + eps) if norm == "std" else scores - mean
