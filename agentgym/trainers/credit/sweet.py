"""SWEET-RL: a turn's advantage from a critic that sees the answer and learns from which episodes went better."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.seam import Processes


@credit("sweet", scope="batch", needs=("preference",), uniform=True)
def sweet(groups: Sequence[Group], *, run: Processes | None = None, whiten: bool = True) -> list[list[Floats]]:
    """Credit turn k with A_k - mean A over all turns of its group, A_k of the need `preference`.

    Source: SWEET-RL, arXiv 2503.15478, whose critic predicts A; there it ranks replies to one history for DPO, so that no
    constant in it matters. A preference over sums determines A up to a constant, hence the mean. Statistics over turns:
    the mean over the group's, and with `whiten` all are divided by their std over all turns of the step (ddof 0, eps
    1e-8), less their mean. A turn without a number has 0. A group of one, or without spread, has a signal once the critic
    has learned from others: `--select keep` trains on them, `drop` does not. No penalties, no discount.
    Returns an array [turns] per episode, in units of A, or in standard deviations with `whiten`.
    """
    advantages: list[list[Floats]] = []
    for group in groups:
        rows = [np.array([turn.extra["preference"] for turn in episode.turns], dtype=np.float64) for episode in group]
        known = np.concatenate(rows)[~np.isnan(np.concatenate(rows))]
        mean = float(known.mean()) if len(known) else 0.0
        advantages.append([np.nan_to_num(row - mean) for row in rows])
    return whitened(advantages, run) if whiten else advantages
