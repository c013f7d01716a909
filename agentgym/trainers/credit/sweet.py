"""SWEET-RL: a turn's advantage from a critic that sees the answer and learns from which episodes went better."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.seam import Processes


@credit("sweet", scope="batch", needs=("log_ratio",), uniform=True)
def sweet(groups: Sequence[Group], *, run: Processes | None = None, whiten: bool = True) -> list[list[Floats]]:
    """Credit turn k with A_k - mean A over all turns of its group, A_k of the need `log_ratio`.

    Source: SWEET-RL, arXiv 2503.15478. There A ranks replies to one history for DPO: loss `turn_dpo` with
    branching `pairs` or `turns`. With another loss A is the advantage of a policy gradient, and the mean is its baseline.
    Statistics over turns: the mean over the group's, and with `whiten` all are divided by their std over all turns of the
    step (ddof 0, eps 1e-8), less their mean. A turn without a number has 0. A group of one, or without spread, has a signal
    once the critic has learned from others: `--select keep` trains on them, `drop` does not. No penalties, no discount.
    Returns an array [turns] per episode, in nats per token, or in standard deviations with `whiten`.
    """
    return _centered(groups, "log_ratio", run, whiten)


@credit("sweet_head", scope="batch", needs=("preference",), uniform=True)
def sweet_head(groups: Sequence[Group], *, run: Processes | None = None, whiten: bool = True) -> list[list[Floats]]:
    """Credit turn k with A_k - mean A over all turns of its group, A_k of the need `preference`.

    Source: ours, after SWEET-RL (arXiv 2503.15478): a head on the policy's hidden states in place of a language model. A
    preference over sums determines A up to a constant, hence the mean. Statistics over turns (mean, spread, ddof 0, eps
    1e-8), groups of one or without spread, and penalties (none) are as in `sweet`.
    Returns an array [turns] per episode, in units of A, or in standard deviations with `whiten`.
    """
    return _centered(groups, "preference", run, whiten)


def _centered(groups: Sequence[Group], key: str, run: Processes | None, whiten: bool) -> list[list[Floats]]:
    advantages: list[list[Floats]] = []
    for group in groups:
        rows = [np.array([turn.extra[key] for turn in episode.turns], dtype=np.float64) for episode in group]
        known = np.concatenate(rows)[~np.isnan(np.concatenate(rows))]
        mean = float(known.mean()) if len(known) else 0.0
        advantages.append([np.nan_to_num(row - mean) for row in rows])
    return whitened(advantages, run) if whiten else advantages
