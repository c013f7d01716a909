"""Credit for a verifier that sometimes rejects right answers: forward correction of its verdicts."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.data.error_rates import RECHECKED, false_negative_rate
from agentgym.trainers.seam import Processes


@credit("forward_correction", scope="batch", uniform=True)
def forward_correction(
    groups: Sequence[Group],
    *,
    state: dict[str, float],
    false_negative: Annotated[float, Within(0, 1)] = 0.0,
    decay: Annotated[float, Within(0, 1)] = 0.9,
    run: Processes | None = None,
) -> list[list[Floats]]:
    """Credit every turn of an accepted episode with rho and of a rejected one with rho - 1; rho is the false-negative rate.

    Source: arXiv 2510.00915, forward correction (weights w_1 = rho and w_0 = rho - 1). Suppose a verifier rejects right
    answers at rate rho and accepts wrong ones at rate f. Averaged over its errors, a right answer gets 0 and a wrong
    one gets -(1 - f - rho). So the gradient keeps its direction without noise, and f need not be known. No baseline is
    subtracted: the two weights differ by 1 for any rho, so a baseline would remove the effect of rho.

    An episode is accepted if the environment counts a success; the reward `noise`, if used, flips this. With
    `false_negative` 0, rho is estimated from the reward `tinyv`, at any weight, which rechecks rejected answers:
    rho = found right / (found right + accepted). A step's counts are weighted by `decay` to the power of their age in steps.
    Statistics: only rho, over trajectories; no ddof, no eps. Groups of one episode or without spread also get credit:
    keep them with `--select keep`. Rejected actions get no penalties.
    Returns an array [turns] per episode, dimensionless.

    Raises:
        BadConfig: rho has to be estimated, but the run does not have the reward `tinyv`.
    """
    episodes = [episode for group in groups for episode in group]
    rate = false_negative or _estimated(episodes, state, decay, run)
    return [[np.full(len(e.turns), rate - 1.0 + _accepted(e)) for e in group] for group in groups]


def _accepted(episode: Episode) -> float:
    """Return 1 if the verifier accepted the episode, else 0; flips by the reward `noise` count as the verifier's errors."""
    flipped = sum(turn.rewards.get("noise", 0.0) for turn in episode.turns)
    return float(episode.success is True) + flipped


def _estimated(episodes: Sequence[Episode], state: dict[str, float], decay: float, run: Processes | None) -> float:
    right = [turn.extra[RECHECKED] for episode in episodes for turn in episode.turns if RECHECKED in turn.extra]
    own = [(sum(_accepted(episode) for episode in episodes), float(sum(right)), len(right))]
    every = own if run is None else run.gather(own)
    if run is not None and episodes and not sum(number for _, _, number in every):
        raise BadConfig(
            "credit 'forward_correction' estimates the rate of false negatives from the reward 'tinyv', which this run does "
            "not have: add --reward tinyv, or give the rate with --credit.false-negative 0.1"
        )
    return false_negative_rate(state, sum(own[0] for own in every), sum(own[1] for own in every), decay) or 0.0
