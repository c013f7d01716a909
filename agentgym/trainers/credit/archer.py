"""ArCHer: credit a turn with the off-policy critic's value of its action minus that of its state."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.seam import Processes, Within


@credit("archer", scope="batch", needs=("turn_q",), uniform=True)
def archer(
    groups: Sequence[Group],
    *,
    run: Processes | None = None,
    step: int = 0,
    warmup: Annotated[int, Within(0, 1_000_000)] = 0,
    whiten: bool = False,
) -> list[list[Floats]]:
    """Credit each token of turn k with A_k = min(Q1, Q2)(s_k, a_k) - min(V1, V2)(s_k); the need `turn_q` computes Q and V.

    Source: ArCHer, arXiv 2402.19446. Every token of a turn gets the advantage of the whole turn, without discount. In
    the first `warmup` steps all advantages are 0 and only the critic learns, as in the published code. A turn without a
    value gets 0. The paper's optional token-level baseline is not implemented.
    Statistics over turns: with `whiten` (our addition), A becomes (A - mean) / (std + 1e-8) over all turns of the step,
    ddof 0. Groups of one episode or without spread also get credit: keep them with `--select keep`. Rejected actions
    get no penalties.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `whiten`.
    """
    if step < warmup:
        return [[np.zeros(len(episode.turns)) for episode in group] for group in groups]
    advantages = [
        [
            np.nan_to_num(np.array([t.extra["turn_q"] - t.extra["turn_v"] for t in episode.turns], dtype=np.float64))
            for episode in group
        ]
        for group in groups
    ]
    return whitened(advantages, run) if whiten else advantages
