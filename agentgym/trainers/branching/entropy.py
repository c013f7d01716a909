"""Branch where the policy's entropy rises after an observation: ARPO, and AEPO, which also spreads the branches out."""

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
"""Probability of a branch, given the rise of the entropy and the number of turns just before it that branched too."""
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

    Source: ARPO, arXiv 2507.19849, entropy-based adaptive rollout: N global rollouts of a budget of M, and partial ones
    where the entropy of the first `tokens` tokens after a tool's answer (H_t) is above that of the first turn (H_0);
    branches branch too; what is left of the budget is played from the beginning. `beams` branches are taken at once. The
    probability, clipped to [0, 1], and the defaults are the published code's; the text compares alpha + beta * (H_t - H_0)
    with a threshold. Part: H is estimated by the mean of -log p of the sampled tokens, in nats; the published code sums p
    log p over the ten likeliest tokens and divides by the logarithm of the vocabulary's size. A branch is taken before the
    turn that was measured, as the text has it; the code takes it after that turn's own tool call.
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
    """Let a first episode decide how many start at the beginning; branch as in `arpo`, less often after other branches.

    Source: AEPO, arXiv 2510.14545, dynamic entropy-balanced rollout. Of a budget of k, m = k * sigma(`sensitivity` * (H_root
    - mean H_tool)) are played from the beginning, rounded up, H_root being the entropy of the first turn and H_tool that of
    later ones; a turn branches with probability (base + weight (H_t - H_0)) * (1 - `penalty` * l), clipped to [0, 1], where
    l counts the turns just before it on its path that have a branch. Defaults are the published code's. Part: the first
    episode, which is measured, is one of the m here, and thrown away there; the code multiplies a random number instead of
    the probability, which makes its penalty the other way round; what stands for the entropy is as in `arpo`.
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
    """Return the number of a group's episodes that start at the beginning of the task."""
    root, *later = (surprise(turn, tokens) for turn in episode.turns)
    gap = root - float(np.mean(later)) if later else math.inf
    return max(min(math.ceil(size / (1 + math.exp(-min(sensitivity * gap, 700.0)))), size), 1)


def _drawn(growth: GroupInProgress, tokens: int, beams: int, chance: Chance) -> list[Branch]:
    """Draw branches at the turns that the new episodes played themselves."""
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
