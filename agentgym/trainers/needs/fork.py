"""The need `fork`: give turns that continue from the same previous turns a common number."""

from collections.abc import Sequence
from math import nan

from agentgym.episodes.episode import Group
from agentgym.trainers.data.trees import forks, holders
from agentgym.trainers.needs.interface import needs


@needs("fork")
def fork(groups: Sequence[Group]) -> None:
    """Set `turn.extra["fork"]`: siblings, which are turns with the same previous turns, get the same number; others nan.

    If several episodes share a turn, only the first episode's copy of it gets the number.
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
