"""SWEET-RL: turn advantages from a critic that sees the solution and learns which of two episodes went better."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.seam import Processes


@credit("sweet", scope="batch", needs=("log_ratio",), uniform=True)
def sweet(groups: Sequence[Group], *, run: Processes | None = None, whiten: bool = True) -> list[list[Floats]]:
    """Credit turn k with A_k - mean A over all turns of its group, where the need `log_ratio` computes A_k.

    Source: SWEET-RL, arXiv 2503.15478, where A ranks replies to one history for DPO: use loss `turn_dpo` with branching
    `pairs` or `turns`. With another loss, A is the advantage of a policy gradient and the mean is its baseline. A turn
    without a number gets 0.
    Statistics over turns: the mean over the group; with `whiten`, then (A - mean) / (std + 1e-8) over all turns of the
    step, ddof 0. Groups of one episode or without spread also get credit once the critic has learned from other groups:
    `--select keep` trains on them, `drop` does not. Rejected actions get no penalties, and nothing is discounted.
    Returns an array [turns] per episode, in nats per token, or in standard deviations with `whiten`.
    """
    return _centered(groups, "log_ratio", run, whiten)


@credit("sweet_head", scope="batch", needs=("preference",), uniform=True)
def sweet_head(groups: Sequence[Group], *, run: Processes | None = None, whiten: bool = True) -> list[list[Floats]]:
    """Credit turn k with A_k - mean A over all turns of its group, where the need `preference` computes A_k.

    Source: ours, after SWEET-RL (arXiv 2503.15478), with a head on the policy's hidden states in place of a language
    model. The critic learns only from sums of A, which leave a constant undetermined, so the mean is subtracted.
    Statistics over turns (mean, spread, ddof 0, eps 1e-8), groups of one episode or without spread, and penalties
    (none) as in `sweet`.
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
