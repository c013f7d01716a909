"""The need `fork`: identify turns that continue from the same turn."""

from collections.abc import Sequence
from math import nan

from agentgym.episodes.episode import Group
from agentgym.trainers.data.trees import forks, holders
from agentgym.trainers.needs.interface import needs


@needs("fork")
def fork(groups: Sequence[Group]) -> None:
    """Store fork numbers: a turn gets the same number as its siblings, which follow the same turns; nan without siblings.

    If several episodes share a turn, only the first one gets the number.
    """
    number = 0
    for group in groups:
        for turn in (turn for episode in group for turn in episode.turns):
            turn.extra["fork"] = nan
        holding = holders(group.episodes)
        for siblings in forks(group.episodes):
            for key in siblings:
                group[holding[key][0]].turns[key[1]].extra["fork"] = float(number)
            number += 1
