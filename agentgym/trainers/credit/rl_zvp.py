"""RL-ZVP: credit groups in which all episodes succeeded, or all failed, by the entropy of their tokens."""

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative


@credit("rl_zvp", needs=("entropy",), uniform=True)
def rl_zvp(group: Group, *, alpha: NotNegative = 0.1, eps: NotNegative = 1e-6) -> list[Floats]:
    """Credit tokens with alpha * H_t if all succeeded, -alpha * (max H - H_t) if all failed, and else as `grpo`.

    Source: RL-ZVP, arXiv 2509.21880. H_t is the token's entropy, and max H the highest entropy of its episode. So
    high-entropy tokens gain most if all episodes succeeded, and lose least if all failed. We did not find the paper's
    alpha.
    Statistics as in `grpo`: over trajectories, ddof 1. The entropy rule applies to groups without spread: equal
    returns, and either all episodes succeeded or none did. A group of one episode is such a group. Keep these groups
    with `--select keep`. Rejected actions get no penalties.
    Returns an array [output tokens of all turns, in order] per episode, in standard deviations of R, or in nats times
    `alpha` in groups without spread.
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
    """Return the entropy of each output token, [output tokens of all turns]; nan in turns that are not trained."""
    by_turn = [np.asarray(t.extra.get("entropy", np.full(len(t.output_ids), np.nan)), np.float64) for t in episode.turns]
    return np.concatenate(by_turn) if by_turn else np.zeros(0)
