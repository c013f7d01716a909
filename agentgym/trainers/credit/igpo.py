"""IGPO: reward a turn with its gain in the probability of the gold answer."""

from typing import Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative, Share, centred, discounted
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("igpo", needs=("probe",), uniform=True)
def igpo(
    group: Group,
    *,
    gamma: Share = 1.0,
    together: bool = False,
    ddof: Literal[0, 1] = 1,
    eps: NotNegative = 1e-6,
) -> list[Floats]:
    """Credit turn k with sum_{j >= k} gamma^(j - k) N(r_j): r is the gain of the probe, of the last turn the return.

    Source: IGPO, arXiv 2510.14967. The gain of turn k is probe_{k+1} - probe_k, the probability of the gold answer after
    it less that before it: the geometric mean over the answer's tokens, the default of `--needs.mean`. The last turn,
    which answers, has the episode's return instead. N is (x - mean) / (std + eps) over the group: over all gains, and
    over all returns; with `together` over both at once, because the paper leaves this open. gamma is open
    as well; 1 means a plain sum. Statistics over turns (gains) and trajectories (returns). A gain that could not be measured
    (nan) is left out and counts 0. A group of one compares its gains with one another; one value alone gives 0, no
    spread exactly 0 (`ddof`). Groups that failed as a whole have a signal: `--select keep`. No penalties.
    Returns an array [turns] per episode, in standard deviations.
    """
    rows: list[Floats] = []
    for episode in group:
        gains = np.diff([turn.extra["probe"] for turn in episode.turns], append=0.0).astype(np.float64)
        gains[-1] = turn_rewards(episode).sum()
        rows.append(gains)
    last = np.concatenate([np.arange(len(row)) == len(row) - 1 for row in rows])
    flat = np.concatenate(rows)
    for part in (np.ones_like(last),) if together else (last, ~last):
        part = part & ~np.isnan(flat)
        flat[part] = centred(flat[part], norm="std", ddof=ddof, eps=eps) if part.any() else 0.0
    ends = np.cumsum([len(row) for row in rows])[:-1]
    return [discounted(row, gamma) for row in np.split(np.nan_to_num(flat), ends)]
