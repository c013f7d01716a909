"""The need `fork`: which turns are continuations of the same turns."""

from collections.abc import Sequence
from math import nan

from agentgym.episodes.episode import Group
from agentgym.trainers.data.trees import forks, holders
from agentgym.trainers.needs.interface import needs


@needs("fork")
def fork(groups: Sequence[Group]) -> None:
    """A number that a turn has in common with its siblings, the turns that follow the very same turns; nan without any.

    Of a turn that several episodes hold, the first of them has it.
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
