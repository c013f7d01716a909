"""Credit for a verifier that rejects right answers: the forward correction of its verdicts."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.data.error_rates import false_negative_rate
from agentgym.trainers.seam import Processes

RECHECKED = "tinyv"
"""The part of a reward that marks a rejected answer as right."""


@credit("forward_correction", scope="batch", uniform=True)
def forward_correction(
    groups: Sequence[Group],
    *,
    state: dict[str, float],
    false_negative: Annotated[float, Within(0, 1)] = 0.0,
    decay: Annotated[float, Within(0, 1)] = 0.9,
    run: Processes | None = None,
) -> list[list[Floats]]:
    """Credit every turn of an accepted episode with rho, and of a rejected one with rho - 1, rho the false-negative rate.

    Source: arXiv 2510.00915, forward correction (weights w_1 = rho and w_0 = rho - 1). If a verifier rejects right answers
    at rate rho and accepts wrong ones at rate f, the mean over its errors is 0 for a right answer and -(1 - f - rho) for a
    wrong one: the gradient keeps the clean direction, and f need not be known. Accepted is a success of the environment,
    flipped by the reward `noise` if it is listed. With a baseline the two weights would differ by 1 whatever rho is, so
    nothing is subtracted. `false_negative` 0 estimates rho from the reward `tinyv`, which rechecks rejected answers:
    rechecked and right / (those + accepted), over steps with weight `decay` to the power of their age. A group of one, or
    without spread, has a signal: `--select keep`. Statistics: only rho, over trajectories; no ddof, no eps. No penalties.
    Returns an array [turns] per episode, dimensionless.

    Raises:
        BadConfig: rho is to be estimated and no episode was rechecked.
    """
    episodes = [episode for group in groups for episode in group]
    rate = false_negative or _estimated(episodes, state, decay, run)
    return [[np.full(len(e.turns), rate - 1.0 + _accepted(e)) for e in group] for group in groups]


def _accepted(episode: Episode) -> float:
    """Return 1 for an episode that the verifier accepted, its errors by the reward `noise` included."""
    flipped = sum(turn.rewards.get("noise", 0.0) for turn in episode.turns)
    return float(episode.success is True) + flipped


def _estimated(episodes: Sequence[Episode], state: dict[str, float], decay: float, run: Processes | None) -> float:
    parts = [turn.rewards[RECHECKED] for episode in episodes for turn in episode.turns if RECHECKED in turn.rewards]
    own = [(sum(_accepted(episode) for episode in episodes), float(sum(part > 0 for part in parts)), len(parts))]
    every = own if run is None else run.gather(own)
    if run is not None and episodes and not sum(number for _, _, number in every):
        raise BadConfig(
            "credit 'forward_correction' estimates the rate of false negatives from the reward 'tinyv', which this run does "
            "not have: add --reward tinyv, or give the rate with --credit.false-negative 0.1"
        )
    return false_negative_rate(state, sum(own[0] for own in every), sum(own[1] for own in every), decay) or 0.0
