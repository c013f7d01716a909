"""HGPO: compare turns that start from the same state, with more weight for turns that also share earlier states."""

from collections.abc import Hashable
from typing import Annotated, Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.gigpo import Anchor
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.scores import Norm, NotNegative, Share, centred, discounted
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("hgpo")
def hgpo(
    group: Group,
    *,
    anchor: Anchor = "observation",
    history: Annotated[int, Within(0, 1000)] = 2,
    alpha: NotNegative = 1.0,
    gamma: Share = 0.95,
    norm: Norm = "mean",
    ddof: Literal[0, 1] = 0,
    eps: NotNegative = 1e-6,
) -> list[Floats]:
    """Credit a turn with sum_k w_k A_k / sum_k w_k over history lengths k = 1 .. history + 1, where w_k = (k + 1)^alpha.

    Source: HGPO, `recipe/hgpo` of verl-agent. A_k centres G = r + gamma * G_next among the turns of the group with the
    same last k states, the current state included. Lengths k at which no other turn has the same states are skipped.
    Published defaults: history 2, alpha 1, ddof 0 and `norm="std"`; dividing by the spread makes tiny differences as
    large as successes in small groups, so the default here is `mean`. The published code also skips lengths whose
    advantage is exactly 0; here they count.
    Statistics over turns. A turn that is alone at every length gets 0, so a group of one episode that never visits a
    state twice gets 0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `norm="std"`.
    """
    returns = [discounted(turn_rewards(episode), gamma) for episode in group]
    members: dict[tuple[Hashable, ...], list[tuple[int, int]]] = {}
    for i, episode in enumerate(group):
        keys = [turn.state_key if anchor == "state" else turn.observation for turn in episode.turns]
        for t in range(len(keys)):
            for k in range(1, min(history, t) + 2):
                context = tuple(keys[t - k + 1 : t + 1])
                if None not in context:
                    members.setdefault(context, []).append((i, t))
    totals, weights = ([np.zeros(len(row)) for row in returns] for _ in range(2))
    for context, turns in members.items():
        if len(turns) < 2:
            continue
        weight = (len(context) + 1) ** alpha
        scores = centred(np.array([returns[i][t] for i, t in turns]), norm=norm, ddof=ddof, eps=eps)
        for (i, t), score in zip(turns, scores, strict=True):
            totals[i][t] += weight * score
            weights[i][t] += weight
    return [total / np.maximum(weight, 1e-12) for total, weight in zip(totals, weights, strict=True)]
