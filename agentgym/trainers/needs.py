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
    place(episodes, rows, needs, score(rows))


def place(episodes: Sequence[Episode], rows: Sequence[Segment], names: Sequence[str], values: Values) -> None:
    """Put what was computed for rows of these episodes into `turn.extra` of every call that is trained."""
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for i, row in enumerate(rows):
        for number in np.unique(row.turns[row.mask]):
            for name in names:
                calls[row.episode][int(number)].extra[name] = values[name][i][row.turns == number]
