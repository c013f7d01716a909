"""NGRPO: add a virtual attempt with the highest possible reward to each group's statistics."""

from typing import Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative, centred
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("ngrpo", uniform=True)
def ngrpo(group: Group, *, best: float = 1.0, ddof: Literal[0, 1] = 1, eps: NotNegative = 1e-6) -> list[Floats]:
    """Credit every turn of an episode with (R - mean) / (std + eps) over the returns of the group and `best`.

    Source: NGRPO, arXiv 2509.18851, advantage calibration. `best` is the return of a virtual attempt: it enters mean
    and std and is not trained on. So a group in which every attempt failed has negative advantages; keep such groups
    with `--select keep`. The paper also clips positive advantages more widely than negative ones: set `--clip-high`
    above `--clip-low` (we did not find the paper's bounds).
    Statistics over trajectories, the virtual one included; the paper does not give the ddof. A group of one episode is
    compared with `best`. Zero spread (all returns equal `best`) gives exactly 0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations of R.
    """
    returns = [turn_rewards(episode).sum() for episode in group]
    scores = centred(np.array([*returns, best]), norm="std", ddof=ddof, eps=eps)
    return [np.full(len(episode.turns), score) for episode, score in zip(group, scores, strict=False)]
