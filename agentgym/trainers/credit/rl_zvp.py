"""RL-ZVP: credit groups without spread by the entropy of their tokens."""

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative


@credit("rl_zvp", needs=("entropy",), uniform=True)
def rl_zvp(group: Group, *, alpha: NotNegative = 0.1, eps: NotNegative = 1e-6) -> list[Floats]:
    """Credit as `grpo`; tokens of groups that all succeeded by alpha * H_t, that all failed by -alpha * (max H - H_t).

    Source: RL-ZVP, arXiv 2509.21880: if all succeeded, decisive tokens are rewarded; if all
    failed, they are penalized least. H_t is the token's entropy, max H the highest of its episode; alpha was not found.
    Statistics as in `grpo`, over trajectories, ddof 1. A group counts as one without spread if all returns are equal and
    all episodes succeeded, or none did; a group of one is such a group. Train with `--select keep`. No penalties.
    Returns an array [output tokens of all turns, in order] per episode, in standard deviations of R, or in nats times
    `alpha`.
    """
    outcomes = {(episode.reward, episode.success is True) for episode in group}
    if len(outcomes) == 1:
        return [_shaped(_entropies(episode), alpha, bool(episode.success)) for episode in group]
    whole = episode_advantages(group, norm="std", ddof=1, eps=eps, penalty=0.0, punish="valid", penalty_order="advantage")
    return [np.repeat(array, [len(t.output_ids) for t in e.turns]) for array, e in zip(whole, group, strict=True)]


def _shaped(entropies: Floats, alpha: float, won: bool) -> Floats:
    known = np.nan_to_num(entropies)
    return alpha * known if won or not len(known) else -alpha * np.nan_to_num(known.max() - entropies)


def _entropies(episode: Episode) -> Floats:
    """Return the entropy of every output token: [output tokens of all turns]; nan in turns that are not trained."""
    by_turn = [np.asarray(t.extra.get("entropy", np.full(len(t.output_ids), np.nan)), np.float64) for t in episode.turns]
    return np.concatenate(by_turn) if by_turn else np.zeros(0)
