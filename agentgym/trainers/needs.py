"""What a credit function declared that it needs, computed into the turns before it is called."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from agentgym.episode import Episode, Turn
from agentgym.trainers.segments import Segment, build

Values = Mapping[str, Sequence[npt.NDArray[np.float32]]]
"""By need: an array per row, [tokens]."""


def fill(episodes: Sequence[Episode], needs: Sequence[str], score: Callable[[list[Segment]], Values]) -> None:
    """Put an array per need into `turn.extra`, one number per output token, of every call that is trained.

    `score` returns, by need, an array [tokens] per row. It is called even where there are no rows: of several processes,
    all go through the model together.
    """
    rows = build(episodes)
    values = score(rows)
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for place, row in enumerate(rows):
        for number in np.unique(row.turns[row.mask]):
            for need in needs:
                calls[row.episode][int(number)].extra[need] = values[need][place][row.turns == number]
