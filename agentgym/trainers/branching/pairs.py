"""Branch once from a turn of each episode, which gives the pairs that REFUEL compares."""

import math

from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.branching.interface import branching


@branching("pairs")
def pairs(growth: GroupInProgress) -> list[Branch]:
    """Play half of the group (rounded up) from the beginning; branch each episode once from a uniformly drawn turn.

    Source: REFUEL, arXiv 2410.04612, algorithm 1: a turn h is drawn uniformly, the policy plays up to h, and two
    continuations are sampled from there. Here the rest of the episode is the first continuation, and the branch is the
    second. Episodes of one turn have no branch: more episodes start at the beginning instead, and their first turns
    form pairs.
    """
    if not growth.episodes:
        return [Branch(math.ceil(growth.size / 2))]
    if growth.rounds > 1:
        return []
    drawn = [(episode.attempt, int(growth.chance.integers(len(episode.turns)))) for episode in growth.episodes]
    return [Branch(1, attempt, turn) for attempt, turn in drawn]
