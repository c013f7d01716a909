"""SPA-RL: split the outcome into each turn's contribution, as predicted by an estimator."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.scores import Share, discounted
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("spa", scope="batch", needs=("values",), uniform=True)
def spa(
    groups: Sequence[Group],
    *,
    rest: Literal["even", "none"] = "even",
    grounding: Annotated[float, Within(0, 1)] = 0.0,
    gamma: Share = 1.0,
    run: Processes | None = None,
) -> list[list[Floats]]:
    """Reward turn k with its contribution c_k + grounding * valid_k, and credit it with the whitened return-to-go of those.

    Source: SPA-RL, arXiv 2505.20732: a progress estimator, here the head of need `values` at a turn's last token, learns by
    (sum of c_k - R)^2 to attribute the outcome R to turns; the rewards are then c_k and a grounding signal (the action was
    executed). The head learns that loss exactly: at the last token of each turn it gets the target c_k + R - sum of c, whose
    squared error has the same gradient (of the first update of a step; later ones go towards the same targets). `rest`
    `even`: R minus the sum of estimates is spread evenly, so that contributions sum to R; `none`: as estimated. Statistics
    over turns. A turn without a value contributes 0 plus its share of the rest. Advantages are the returns-to-go,
    discounted by `gamma`, less their mean over std over all turns of the step in all processes (ddof 0). Part: the paper
    trains the estimator beforehand, on episodes of a policy after imitation, and then runs PPO with a critic; the weights of
    both signals. A group of one, or without spread, has a signal, and an estimator that never sees such groups learns wrong
    contributions: train with `--select keep`. No penalties.
    Returns an array [turns] per episode, in standard deviations.
    """
    returns: list[list[Floats]] = []
    for group in groups:
        returns.append([])
        for episode in group:
            paid = contributions(episode, rest) + grounding * np.array([turn.valid for turn in episode.turns])
            returns[-1].append(discounted(paid, gamma))
    return whitened(returns, run)


def contributions(episode: Episode, rest: str = "even") -> Floats:
    """Return each turn's contribution, [turns], and store the estimator's target at its last token."""
    total = float(turn_rewards(episode).sum())
    values = [np.asarray(turn.extra.get("values", ()), dtype=np.float64) for turn in episode.turns]
    progress = np.array([value[-1] if len(value) else np.nan for value in values])
    remainder = total - float(np.nansum(progress))
    for turn, value in zip(episode.turns, values, strict=True):
        if len(value):
            target = np.full(len(value), np.nan, dtype=np.float32)
            target[-1] = value[-1] + remainder
            turn.extra["value_target"] = target
    contributed = np.nan_to_num(progress)
    return contributed + remainder / len(contributed) if rest == "even" else contributed
