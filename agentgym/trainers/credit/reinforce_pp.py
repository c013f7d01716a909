"""REINFORCE++, with and without a group baseline: advantages whitened over the tokens of a whole step."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Share
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("reinforce_pp", scope="batch", uniform=True)
def reinforce_pp(groups: Sequence[Group], *, gamma: Share = 1.0, run: Processes | None = None) -> list[list[Floats]]:
    """Credit each token with its return G_t = r_t + gamma * G_{t+1}, whitened over all tokens of the step.

    Source: REINFORCE++, arXiv 2501.03262, section 3, without its KL term in the reward (use `--kl`). r_t is the turn's
    reward at the turn's last token and 0 elsewhere. The sum runs over output tokens only, so the tokens of an
    observation between two turns add no discount (published code for agents ends the return there).
    Statistics over tokens: (G - mean) / (std + 1e-8) over the tokens of all groups and processes, ddof 0. Groups of one
    episode or without spread also get credit: keep them with `--select keep`. Zero spread over the whole step gives
    exactly 0. Rejected actions get no penalties.
    Returns an array [output tokens of all turns, in order] per episode, in standard deviations of G.
    """
    return whitened([[_returns(episode, gamma) for episode in group] for group in groups], run)


@credit("reinforce_pp_baseline", scope="batch")
def reinforce_pp_baseline(groups: Sequence[Group], *, run: Processes | None = None) -> list[list[Floats]]:
    """Credit each turn with R - mean R of its group, whitened over all tokens of the step.

    Source: REINFORCE++ with baseline, arXiv 2501.03262, section 3 (the form for several replies per prompt).
    Statistics: baselines over trajectories; whitening over tokens as in `reinforce_pp` (ddof 0). All groups are divided
    by the same spread, so easy and hard groups keep their relative weights. Groups of one episode or without spread
    have 0 before the whitening. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations over tokens.
    """
    centred: list[list[Floats]] = []
    for group in groups:
        rewards = [turn_rewards(episode).sum() for episode in group]
        centred.append([np.full(len(e.turns), r - np.mean(rewards)) for e, r in zip(group, rewards, strict=True)])
    counts = [[_lengths(episode) for episode in group] for group in groups]
    return whitened(centred, run, counts=counts)


def _lengths(episode: Episode) -> Floats:
    return np.array([len(turn.output_ids) for turn in episode.turns], dtype=np.float64)


def _returns(episode: Episode, gamma: float) -> Floats:
    """Return the discounted return from each output token on, [output tokens of all turns, in order]."""
    parts: list[Floats] = []
    later = 0.0
    for turn, reward in zip(reversed(episode.turns), turn_rewards(episode)[::-1], strict=True):
        size = len(turn.output_ids)
        if not size:
            later += reward
            continue
        last = reward + gamma * later
        parts.append(last * gamma ** np.arange(size - 1, -1, -1))
        later = parts[-1][0]
    return np.concatenate(parts[::-1]) if parts else np.zeros(0)
