"""Two continuations from one turn of each episode: what REFUEL compares."""

import math

from agentgym.rollout.branched import Branch, Growth
from agentgym.trainers.branching.interface import branching


@branching("pairs")
def pairs(growth: Growth) -> list[Branch]:
    """Half of the group from the beginning, and one continuation more from a turn of each, drawn evenly.

    Source: REFUEL, arXiv 2410.04612, algorithm 1: a turn h is drawn evenly, and from what the policy itself led to before h,
    two continuations are sampled. Here the first of the two is the rest of the episode that led there. Episodes of one turn
    have no second one: what is left of the group is played from the beginning, which makes a pair of the first turn.
    """
    if not growth.episodes:
        return [Branch(math.ceil(growth.size / 2))]
    if growth.rounds > 1:
        return []
    drawn = [(episode.attempt, int(growth.chance.integers(len(episode.turns)))) for episode in growth.episodes]
    return [Branch(1, attempt, turn) for attempt, turn in drawn]
