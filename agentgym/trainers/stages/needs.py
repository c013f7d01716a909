"""What credit and loss functions need to know of each turn, computed into `turn.extra` before they are called."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.trainers.segments import Segment, build
from agentgym.trainers.stages.seams import Seam, Target

Values = Mapping[str, Sequence[npt.NDArray[np.float32]]]
"""By need: an array per row, [tokens]."""

SCORED = ("entropy", "logprobs")
"""What one pass of the trainer over all tokens gives, whichever of them are asked for."""
NEEDS = Seam("needs", {name: f"agentgym.trainers.stages.needs:{name}" for name in SCORED}, noun="need")


def needs(name: str) -> Callable[[Target], Target]:
    """Declare a function `(groups, *, run)`, async or not, that puts `turn.extra[NAME]` into every turn, and name it.

    Of several processes each calls it on its own groups, all of them in every step, also without any group.
    """
    return NEEDS.declare(name)


@needs("entropy")
def entropy(groups: Sequence[Group], *, run: Any) -> None:
    """The entropy in nats of the distribution that each output token was drawn from, under the trainer's weights."""
    score([episode for group in groups for episode in group], ("entropy",), run.learner.score)


@needs("logprobs")
def logprobs(groups: Sequence[Group], *, run: Any) -> None:
    """The log-probability of each output token under the trainer's weights."""
    score([episode for group in groups for episode in group], ("logprobs",), run.learner.score)


def score(episodes: Sequence[Episode], names: Sequence[str], scored: Callable[[list[Segment]], Values]) -> None:
    """Put an array per name into `turn.extra`, one number per output token, of every call that is trained.

    `scored` returns, by name, an array [tokens] per row. It is called even where there are no rows: of several processes,
    all go through the model together.
    """
    rows = build(episodes)
    place(episodes, rows, names, scored(rows))


def place(episodes: Sequence[Episode], rows: Sequence[Segment], names: Sequence[str], values: Values) -> None:
    """Put what was computed for rows of these episodes into `turn.extra` of every call that is trained."""
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for i, row in enumerate(rows):
        for number in np.unique(row.turns[row.mask]):
            for name in names:
                calls[row.episode][int(number)].extra[name] = values[name][i][row.turns == number]


def attach(episodes: Sequence[Episode], rows: Sequence[Segment], names: Sequence[str]) -> None:
    """Lay out what stands in `turn.extra` (a number, or one per output token) by the tokens of the rows."""
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for row in rows if names else ():
        row.extra = {name: np.full(len(row), np.nan, dtype=np.float32) for name in names}
        for number in np.unique(row.turns[row.turns >= 0]):
            for name in names:
                value = calls[row.episode][int(number)].extra.get(name)
                if value is not None:
                    row.extra[name][row.turns == number] = value


async def compute(groups: Sequence[Group], names: Sequence[str], run: Any) -> None:
    """Compute everything that is needed; what one pass over the tokens gives is asked for once."""
    scored = [name for name in dict.fromkeys(names) if name in SCORED]
    if scored:
        score([episode for group in groups for episode in group], scored, run.learner.score)
    for name in dict.fromkeys(names):
        if name not in SCORED:
            await finished(NEEDS.resolve(name)(groups, run=run))


async def finished(result: Any) -> Any:
    """Return what a stage returned, awaited where the stage is a coroutine."""
    return await result if hasattr(result, "__await__") else result
