"""RLPR: reward an episode by how much it raises the probability of the gold answer; this needs no verifier."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative, centred
from agentgym.trainers.seam import Processes


@credit("rlpr", scope="batch", needs=("probe",), uniform=True)
def rlpr(
    groups: Sequence[Group], *, spread: NotNegative = 0.5, eps: NotNegative = 1e-6, run: Processes | None = None
) -> list[list[Floats]]:
    """Credit each turn with (r - mean) / (std + eps) of its group, where r is the last turn's probe minus the first turn's.

    Source: RLPR, arXiv 2506.18254: the probability of the reference answer after the reasoning minus the probability
    without it (debiasing), clipped to [0, 1], replaces a verifier's reward. `--needs.mean arithmetic` selects the
    paper's mean of the answer's token probabilities. Episodes of one turn have r = 0, so reasoning and answer have to
    be separate turns. The environment's reward is not read: train with `--select keep`. Groups whose std of r is below
    `spread` times the mean std of the step's groups get 0; the paper compares with a moving average of that mean and
    does not give its decay.
    Statistics over trajectories, ddof 1. A group of one episode gives 0; zero spread gives exactly 0. Rejected actions
    get no penalties.
    Returns an array [turns] per episode, in standard deviations of r.
    """
    rewards = [np.array([_reward(episode) for episode in group]) for group in groups]
    deviations = [float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in rewards]
    seen = deviations if run is None else run.gather(deviations)
    least = spread * sum(seen) / max(len(seen), 1)
    credits: list[list[Floats]] = []
    for group, values, deviation in zip(groups, rewards, deviations, strict=True):
        scores = centred(values, norm="std", ddof=1, eps=eps) if deviation >= least else np.zeros_like(values)
        credits.append([np.full(len(episode.turns), score) for episode, score in zip(group, scores, strict=True)])
    return credits


def _reward(episode: Episode) -> float:
    """Return the episode's gain in the probability of the answer, clipped to [0, 1]; 0 if it could not be measured."""
    gain = float(episode.turns[-1].extra["probe"]) - float(episode.turns[0].extra["probe"])
    return min(max(gain, 0.0), 1.0) if gain == gain else 0.0
