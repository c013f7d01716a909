"""PAV: add to the outcome each turn's change in the value of a prover policy."""

from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.scores import Norm
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("pav", needs=("prover",), uniform=True)
def pav(group: Group, *, alpha: Annotated[float, Within(0, 1000)] = 1.0, norm: Norm = "mean") -> list[Floats]:
    """Credit turn k with R - mean R + alpha * (r_k + V(k + 1) - V(k)), where V(k) is the prover's value before turn k.

    Source: PAV, arXiv 2410.08146, eq. 5: a step's effective reward is the policy's Q plus alpha times the prover's
    advantage. Q is the episode's own return, with the group's mean as the baseline. The paper trains a model to predict
    the prover's advantage; here it is measured (need `prover`). V after the last turn is 0, so if all turns have
    values, the terms r_k + V(k + 1) - V(k) add up to R - V(first turn). Turns without a value get the same progress as
    the last turn before them that has a value; turns before the first value get 0. The default of alpha is ours.
    Statistics over episodes; `norm="std"` divides R - mean R by the spread (ddof 1), as in `grpo`. Groups of one
    episode or without spread also get credit from progress: keep them with `--select keep`. Rejected actions get
    no penalties.
    Returns an array [turns] per episode, in units of the reward (with `norm="std"`, R - mean R is in standard
    deviations).
    """
    plain = episode_advantages(group, norm=norm, ddof=1, eps=1e-6, penalty=0.0, punish="valid", penalty_order="advantage")
    advantages: list[Floats] = []
    for episode, row in zip(group, plain, strict=True):
        values = np.array([turn.extra["prover"] for turn in episode.turns], dtype=np.float64)
        advantages.append(row + alpha * progress(values, turn_rewards(episode)))
    return advantages


def progress(values: Floats, rewards: Floats) -> Floats:
    """Return each turn's progress, [turns]: rewards until the next turn with a value, plus that value, minus its own.

    `values` and `rewards` are [turns]. A turn whose value is nan gets the progress of the last turn before it that has
    a value, or 0 if there is none. After the last turn, the next value is 0.
    """
    known = np.flatnonzero(~np.isnan(values))
    gains = np.zeros_like(values)
    for t, after in zip(known, [*known[1:], len(values)], strict=True):
        later = values[after] if after < len(values) else 0.0
        gains[t:after] = rewards[t:after].sum() + later - values[t]
    return gains
