"""PAV: the outcome plus each turn's change of a prover policy's value."""

from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.scores import Norm
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("pav", needs=("prover",), uniform=True)
def pav(group: Group, *, alpha: Annotated[float, Within(0, 1000)] = 1.0, norm: Norm = "mean") -> list[Floats]:
    """Credit turn k with R - mean R + alpha * (r_k + V(k + 1) - V(k)), V(k) the prover's value before turn k.

    Source: PAV, arXiv 2410.08146, eq. 5: the effective reward of a step is Q of the policy plus alpha times the advantage of
    the prover, which is its value after the step minus before. Q is estimated by the episode's own return, with the group's
    mean as the baseline (`norm="std"`: divided by the spread, ddof 1, as in `grpo`). V after the last turn is 0, so progress
    sums to R - V(first). Turns without a value share the progress from the last one with a value on; turns before the first
    have none. Part: alpha; the paper trains a model to predict the advantage, which is measured here (need `prover`).
    Statistics over episodes. A group of one and one without spread still have progress: train with `--select keep`. No
    penalties.
    Returns an array [turns] per episode, in units of the reward (R - mean R: in standard deviations with `norm="std"`).
    """
    plain = episode_advantages(group, norm=norm, ddof=1, eps=1e-6, penalty=0.0, punish="valid", penalty_order="advantage")
    advantages: list[Floats] = []
    for episode, row in zip(group, plain, strict=True):
        values = np.array([turn.extra["prover"] for turn in episode.turns], dtype=np.float64)
        advantages.append(row + alpha * progress(values, turn_rewards(episode)))
    return advantages


def progress(values: Floats, rewards: Floats) -> Floats:
    """Return [turns]: the rewards up to the next turn with a value, plus that value, minus the turn's own value."""
    known = np.flatnonzero(~np.isnan(values))
    gains = np.zeros_like(values)
    for t, after in zip(known, [*known[1:], len(values)], strict=True):
        later = values[after] if after < len(values) else 0.0
        gains[t:after] = rewards[t:after].sum() + later - values[t]
    return gains
