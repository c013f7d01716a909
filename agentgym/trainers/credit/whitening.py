"""Whitening of advantages over a whole step and all processes."""

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.credit.interface import Floats
from agentgym.trainers.seam import Processes


def whitened(
    advantages: list[list[Floats]],
    run: Processes | None,
    *,
    counts: Sequence[Sequence[Floats]] | None = None,
    eps: float = 1e-8,
) -> list[list[Floats]]:
    """Return (advantages - mean) / (std + eps), with mean and std (ddof 0) over all numbers of all processes.

    `advantages`, `counts` and the result have an array [turns] or [output tokens] per group and episode. `counts` is
    the weight of each number in the statistics, such as the number of tokens of its turn. Zero spread gives exactly 0.
    """
    own = np.concatenate([array for arrays in advantages for array in arrays]) if any(advantages) else np.zeros(0)
    often = np.ones_like(own)
    if counts is not None and any(counts):
        often = np.concatenate([array for arrays in counts for array in arrays])
    seen = [(float(often.sum()), float((often * own).sum()), float((often * own**2).sum()))]
    number, total, square = (sum(column) for column in zip(*(seen if run is None else run.gather(seen)), strict=True))
    if not number:
        return advantages
    mean = total / number
    spread = max(square / number - mean**2, 0.0) ** 0.5
    scale = 0.0 if spread <= 1e-7 * max(abs(mean), 1.0) else 1 / (spread + eps)  # rounding leaves no exact 0
    return [[(array - mean) * scale for array in arrays] for arrays in advantages]
