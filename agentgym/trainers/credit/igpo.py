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
    """Credit turn k with sum_{j >= k} gamma^(j - k) N(r_j), where r_j is the gain of turn j; the last turn has the return.

    Source: IGPO, arXiv 2510.14967. The gain of turn k is probe_{k+1} - probe_k: the probability of the gold answer
    after the turn minus the probability before it (by default the geometric mean over the answer's tokens; see
    `--needs.mean`). The last turn, which answers, has the episode's return instead of a gain. N is (x - mean) / (std +
    eps) over the group. The paper does not specify if gains and returns are normalized separately (the default) or
    together (`together`), nor gamma; gamma 1 is a plain sum.
    Statistics over turns (gains) and trajectories (returns), with `ddof`. A gain that is nan was not measured and
    counts 0. In a group of one episode, gains are compared with each other; a single value gives 0, and zero spread
    gives exactly 0. Groups in which every episode failed also get credit: keep them with `--select keep`. Rejected
    actions get no penalties.
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
