"""The need `entropy_mean`: the entropy that tokens had on average in the steps before."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.data.segments import build
from agentgym.trainers.needs.interface import Scoring, needs
from agentgym.trainers.seam import Within


@needs("entropy_mean")
def entropy_mean(
    groups: Sequence[Group], *, run: Scoring, state: dict[str, list[float]], window: Annotated[int, Within(1, 100_000)] = 50
) -> None:
    """The mean entropy in nats over the trained tokens of the last `window` steps, this one's included (EPO).

    One number, in every turn; of several processes it is over the tokens of all. The steps' means are kept in the `state`.
    """
    rows = build([episode for group in groups for episode in group])
    entropies = run.learner.score(rows)["entropy"]
    own = np.concatenate([values[row.mask] for values, row in zip(entropies, rows, strict=True)]) if rows else np.zeros(0)
    sums = run.gather([(float(own.sum()), len(own))])
    total, number = (sum(column) for column in zip(*sums, strict=True))
    past: list[float] = state.setdefault("means", [])
    if number:
        past.append(total / number)
        del past[:-window]
    mean = sum(past) / max(len(past), 1)
    for turn in (turn for group in groups for episode in group for turn in episode.turns):
        for call in turn.calls:
            call.extra["entropy_mean"] = mean
