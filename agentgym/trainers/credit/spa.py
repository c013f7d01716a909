"""SPA-RL: split the outcome of an episode into contributions of its turns, which an estimator predicts."""

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
    """Reward turn k with c_k + grounding * valid_k, where c_k is its contribution; credit is the whitened return-to-go.

    Source: SPA-RL, arXiv 2505.20732. A progress estimator learns by the loss (sum of c_k - R)^2 to attribute the
    outcome R to turns. Here it is the value head of the need `values`, read at the last token of each turn. Its target
    there is c_k + R - sum of c: this squared error has the gradient of the loss at the first update of a step, and
    later updates of the step keep the same targets. valid_k is 1 if the environment executed the action. With
    `rest="even"`, R minus the sum of estimates is spread evenly over the turns, so contributions sum to R; with
    `"none"`, estimates are used unchanged. A turn without a value contributes 0 plus its share of the rest.

    The paper trains the estimator beforehand, on episodes of the SFT policy, and then runs PPO with a critic. Here the
    estimator learns during training, and the weights of the two signals are ours.
    Statistics over turns: returns-to-go, discounted by `gamma`, minus their mean over std over all turns of the step in
    all processes, ddof 0. Groups of one episode or without spread also get credit, and an estimator that never sees
    them learns wrong contributions: keep them with `--select keep`. Rejected actions get no penalties.
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
    """Return each turn's contribution, [turns], and store the estimator's target at each turn's last token."""
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
