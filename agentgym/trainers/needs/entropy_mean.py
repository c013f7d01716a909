"""The needs `entropy_mean` and `turn_entropy_mean`: mean entropy of tokens in the steps so far."""

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
    """Measure the mean entropy, in nats, of the trained tokens of the last `window` steps, including this step (EPO).

    Every turn gets the same number: the mean over these steps of each step's mean over the tokens of all processes.
    `state` stores the means of the steps.
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


@needs("turn_entropy_mean")
def turn_entropy_mean(
    groups: Sequence[Group],
    *,
    run: Scoring,
    state: dict[str, list[float]],
    after: Annotated[float, Within(0, 1)] = 0.5,
) -> None:
    """Measure the mean entropy, in nats, of turns with the same index over all steps, including this step (EPO's code).

    It is the mean over steps of each step's mean over tokens of all processes; steps whose episodes were shorter do not
    count. Turns before the share `after` of their episode's horizon get nan, because EPO has no band there. `state`
    stores sums over the steps.
    """
    episodes = [episode for group in groups for episode in group]
    rows = build(episodes)
    entropies = run.learner.score(rows)["entropy"]
    own: dict[int, tuple[float, int]] = {}
    for values, row in zip(entropies, rows, strict=True):
        owners = [number for number, turn in enumerate(episodes[row.episode].turns) for _ in turn.calls]
        for call in sorted({int(number) for number in row.turns if number >= 0}):
            of_call = values[(row.turns == call) & row.mask]
            total, count = own.get(owners[call], (0.0, 0))
            own[owners[call]] = total + float(of_call.sum()), count + len(of_call)
    sums, steps = state.setdefault("sums", []), state.setdefault("steps", [])
    by_process: list[dict[int, tuple[float, int]]] = run.gather([own])
    for number in range(1 + max((number for part in by_process for number in part), default=-1)):
        totals, counts = zip(*(part.get(number, (0.0, 0)) for part in by_process), strict=True)
        if number == len(sums):
            sums.append(0.0)
            steps.append(0.0)
        if sum(counts):
            sums[number] += sum(totals) / sum(counts)
            steps[number] += 1
    for episode in episodes:
        for number, turn in enumerate(episode.turns):
            known = number < len(sums) and number >= after * (episode.horizon or len(episode.turns))
            for call in turn.calls:
                call.extra["turn_entropy_mean"] = sums[number] / max(steps[number], 1) if known else float("nan")
