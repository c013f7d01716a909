"""Lite PPO's advantage: subtract the group's mean, divide by the standard deviation of the whole batch."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("lite_ppo", scope="batch")
def lite_ppo(groups: Sequence[Group], *, eps: NotNegative = 1e-6, run: Processes | None = None) -> list[list[Floats]]:
    """Credit each turn with (R - mean R of its group) / (std of R over the step's episodes + eps).

    Source: Lite PPO, "Tricks or Traps", arXiv 2508.08221: group-level mean, batch-level standard deviation, and the
    token-level loss (`loss_aggregation` `token`, the default). In contrast to `reinforce_pp_baseline`, the spread is
    computed from raw returns and counts each episode once, so long episodes do not dominate it. Statistics over
    trajectories of all processes, ddof 1. A group of one episode gives 0; zero spread gives exactly 0. Rejected actions
    get no penalties.
    Returns an array [turns] per episode, in standard deviations of R.
    """
    returns = [np.array([turn_rewards(episode).sum() for episode in group]) for group in groups]
    own = [float(value) for values in returns for value in values]
    seen = np.array(own if run is None else run.gather(own))
    spread = float(seen.std(ddof=1)) if len(seen) > 1 else 0.0
    scale = 1 / (spread + eps) if spread > 1e-12 else 0.0
    return [
        [np.full(len(episode.turns), (value - values.mean()) * scale) for episode, value in zip(group, values, strict=True)]
        for group, values in zip(groups, returns, strict=True)
    ]
