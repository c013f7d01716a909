"""Grow trees at the turns where the policy is least certain: TreeRL's search."""

import math
from typing import Annotated

from agentgym.episodes.episode import Episode, Turn
from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.branching.interface import branching, surprise
from agentgym.trainers.seam import Within

Few = Annotated[int, Within(1, 1000)]


@branching("treerl")
def treerl(
    growth: GroupInProgress, *, points: Few = 2, branches: Few = 2, rounds: Few = 1, tokens: Annotated[int, Within(0)] = 0
) -> list[Branch]:
    """Grow trees: `rounds` times, add `branches` continuations at each of the `points` most uncertain turns of a tree.

    Source: EPTree of TreeRL, arXiv 2506.11902: M trees, L rounds, the N most uncertain tokens of a tree, T branches at
    each, which gives M (1 + L N T) leaves. Here the group size is fixed, so M is the group size divided by 1 + L N T,
    rounded up, and branches stop when the group is full. Uncertainty is -log p as in the published code, here the mean
    over a turn's first `tokens` tokens (0: all), because a branch begins before a turn. The first turn of a task never
    branches (additional trees cover it), and each turn branches at most once.
    """
    if not growth.episodes:
        return [Branch(max(math.ceil(growth.size / (1 + rounds * points * branches)), 1))]
    if growth.rounds > rounds:
        return []
    trees: dict[int, dict[tuple[int, int], Turn]] = {}
    branched = {(attempt, turn) for episode in growth.episodes for attempt, turn, _ in episode.forks}
    for episode in growth.episodes:
        own = trees.setdefault(episode.origin_of(0), {})
        for number in range(max(episode.shared, 1), len(episode.turns)):
            if not _left_at(episode, number, branched):
                own[episode.attempt, number] = episode.turns[number]
    planned: list[Branch] = []
    for turns in trees.values():
        order = sorted(turns, key=lambda place: (-surprise(turns[place], tokens), place))
        planned += [Branch(branches, attempt, number) for attempt, number in order[:points]]
    return planned


def _left_at(episode: Episode, number: int, branched: set[tuple[int, int]]) -> bool:
    """Return True if turn `number` already branches: another episode branched off there, or this episode began there."""
    return number == episode.shared or (episode.origin_of(number - 1), number) in branched
