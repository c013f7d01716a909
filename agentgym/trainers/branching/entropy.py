"""ARPO and AEPO: branch where the policy's entropy rises after an observation; AEPO also spreads the branches."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Episode
from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.branching.interface import branching, surprise
from agentgym.trainers.seam import Within

Chance = Callable[[float, int], float]
"""Returns the probability of a branch, given the rise of the entropy and the number of directly preceding branches."""
Weight = Annotated[float, Within(0, 1000)]
Share = Annotated[float, Within(0, 1)]


@branching("arpo")
def arpo(
    growth: GroupInProgress,
    *,
    share: Share = 0.5,
    base: Share = 0.5,
    weight: Weight = 0.2,
    tokens: Annotated[int, Within(1)] = 20,
    beams: Annotated[int, Within(1, 1000)] = 1,
) -> list[Branch]:
    """Play a `share` of the group from the beginning; branch later turns with probability base + weight (H_t - H_0).

    Source: ARPO, arXiv 2507.19849, entropy-based adaptive rollout. Of a budget of M rollouts, N start at the beginning.
    Others branch off, more likely where the entropy of the first `tokens` tokens after a tool's answer (H_t) exceeds
    that of the first turn (H_0). Branches can branch again, `beams` branches are taken at once, and the remaining
    budget is played from the beginning. The probability, clipped to [0, 1], and the defaults are from the published
    code; the paper compares alpha + beta * (H_t - H_0) with a threshold.

    Here H is estimated by the mean of -log p of the sampled tokens, in nats. The published code sums p log p over the
    ten likeliest tokens and divides by the logarithm of the vocabulary's size. As in the paper, a branch starts before
    the measured turn; the published code branches after that turn's tool call.
    """
    if not growth.episodes:
        return [Branch(max(math.ceil(share * growth.size), 1))]
    return _drawn(growth, tokens, beams, lambda rise, _: base + weight * rise)


@branching("aepo")
def aepo(
    growth: GroupInProgress,
    *,
    sensitivity: Weight = 0.5,
    base: Share = 0.5,
    weight: Weight = 0.2,
    penalty: Share = 0.05,
    tokens: Annotated[int, Within(1)] = 20,
    beams: Annotated[int, Within(1, 1000)] = 1,
) -> list[Branch]:
    """Let the first episode decide how many episodes start at the beginning; branch as in `arpo`, less after other branches.

    Source: AEPO, arXiv 2510.14545, dynamic entropy-balanced rollout. Of a budget of k rollouts, m = k *
    sigma(`sensitivity` * (H_root - mean H_tool)), rounded up, start at the beginning; H_root is the entropy of the
    first turn and H_tool that of later turns (without later turns, m = k). A turn branches with probability (base +
    weight (H_t - H_0)) * (1 - `penalty` * l), clipped to [0, 1], where l counts the directly preceding turns on its
    path that have a branch. Defaults are the published code's.

    Differences: the first episode, which is measured, is one of the m here; the published code discards it. The
    published code multiplies the random number by the penalty factor, not the probability, so its penalty has the
    opposite effect. The entropy is estimated as in `arpo`.
    """
    if not growth.episodes:
        return [Branch(1)]
    whole = _whole(growth.episodes[0], growth.size, sensitivity, tokens)
    if growth.rounds == 1 and whole > 1:
        return [Branch(whole - 1)]
    return _drawn(
        growth if any(episode.forks for episode in growth.new) else replace(growth, new=growth.episodes),
        tokens,
        beams,
        lambda rise, before: (base + weight * rise) * (1 - penalty * before),
    )


def _whole(episode: Episode, size: int, sensitivity: float, tokens: int) -> int:
    """Return the number of episodes, of a group of `size`, that start at the beginning; `episode` is the first one."""
    root, *later = (surprise(turn, tokens) for turn in episode.turns)
    if not later:
        return size
    rise = sensitivity * (root - float(np.mean(later)))
    return max(math.ceil(size / (1 + math.exp(-min(max(rise, -700.0), 700.0)))), 1)  # bounded, or exp overflows


def _drawn(growth: GroupInProgress, tokens: int, beams: int, chance: Chance) -> list[Branch]:
    """Draw branches from the turns that the newest episodes sampled themselves."""
    branches: list[Branch] = []
    left = growth.left
    for episode in growth.new:
        first = surprise(episode.turns[0], tokens)
        used = growth.branches_by_turn(episode)
        for number in range(episode.shared + 1, len(episode.turns)):
            before = 0
            while used.get(number - 1 - before):
                before += 1
            rise = surprise(episode.turns[number], tokens) - first
            if left > 0 and growth.chance.random() < chance(rise, before):
                branches.append(Branch(min(beams, left), episode.attempt, number))
                used[number] = used.get(number, 0) + 1
                left -= beams
    return branches
