"""Aggregates over few runs on many tasks: interquartile mean and performance profile, with stratified bootstrap.

The definitions are those of Agarwal et al., 2021 ("Deep reinforcement learning at the edge of the statistical precipice",
arXiv:2108.13264), as computed by their package `rliable`. A score belongs to a run R and a column C (`scores_R_C`): a run
is an attempt, a column is a task type of an environment (or the environment, without task types), and the score is the
share of the column's tasks that the attempt solved.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, unhinted
from agentgym.errors import BadConfig
from agentgym.evaluate.statistics import CHUNK, Floats

THRESHOLDS = tuple(i / 10 for i in range(10))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value with its bootstrap interval; `low` and `high` are NaN for a single run, which cannot be resampled."""

    value: float
    low: float
    high: float


def score_table(episodes: Iterable[Episode]) -> Floats:
    """Return the scores of episodes without infrastructure errors and hints as [attempts, columns].

    An attempt that lacks such an episode in some column is left out, so the table is complete but may have no rows.
    """
    cells: dict[int, dict[tuple[str, str], list[float]]] = {}
    for episode in unhinted(episodes):
        if episode.success is not None:
            column = (episode.env, episode.labels.get("type", ""))
            cells.setdefault(episode.attempt, {}).setdefault(column, []).append(float(episode.success))
    columns = sorted({column for row in cells.values() for column in row})
    whole = [cells[attempt] for attempt in sorted(cells) if len(cells[attempt]) == len(columns)]
    rows = [[math.fsum(row[column]) / len(row[column]) for column in columns] for row in whole]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))


def interquartile_mean(scores_R_C: Floats) -> float:
    """Return the mean of all scores [runs, columns] without the lowest and highest quarter (rounded down)."""
    return float(_middle(_checked(scores_R_C).reshape(1, -1))[0])


def performance_profile(scores_R_C: Floats, thresholds: Sequence[float] = THRESHOLDS) -> list[float]:
    """Return the share of scores [runs, columns] above each threshold: the score distribution of `rliable`."""
    scores = _checked(scores_R_C).reshape(1, -1)
    return [float(_above(scores, threshold)[0]) for threshold in thresholds]


def interquartile_interval(scores_R_C: Floats, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Aggregate:
    """Return the interquartile mean of scores [runs, columns] with its percentile interval."""
    return _aggregates(_checked(scores_R_C), [_middle], level, resamples, seed)[0]


def profile_intervals(
    scores_R_C: Floats,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> list[Aggregate]:
    """Return the performance profile of scores [runs, columns] with a pointwise percentile interval for each threshold."""
    measures = [partial(_above, threshold=threshold) for threshold in thresholds]
    return _aggregates(_checked(scores_R_C), measures, level, resamples, seed)


def _aggregates(
    scores_R_C: Floats, measures: Sequence[Callable[[Floats], Floats]], level: float, resamples: int, seed: int
) -> list[Aggregate]:
    if not 0 < level < 1 or resamples < 1:
        raise BadConfig(f"level is {level} and resamples {resamples}; expected between 0 and 1, and at least 1")
    values = [float(measure(scores_R_C.reshape(1, -1))[0]) for measure in measures]
    if len(scores_R_C) < 2:
        return [Aggregate(value, math.nan, math.nan) for value in values]
    drawn = _resample(scores_R_C, measures, resamples, seed)
    tail = (1 - level) / 2
    bounds = [np.quantile(row, [tail, 1 - tail]) for row in drawn]
    return [Aggregate(value, float(low), float(high)) for value, (low, high) in zip(values, bounds, strict=True)]


def _resample(scores_R_C: Floats, measures: Sequence[Callable[[Floats], Floats]], resamples: int, seed: int) -> list[Floats]:
    """Return the bootstrap distribution [resamples] of each measure, resampling the runs within each column."""
    rng = generator("stratified bootstrap", seed)
    runs, columns = scores_R_C.shape
    chunk = max(1, CHUNK // scores_R_C.size)
    parts: list[list[Floats]] = [[] for _ in measures]
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        resampled_runs = rng.integers(runs, size=(size, runs, columns))
        flat: Floats = scores_R_C[resampled_runs, np.arange(columns)].reshape(size, -1)
        for part, measure in zip(parts, measures, strict=True):
            part.append(measure(flat))
    return [np.concatenate(part) for part in parts]


def _middle(flat: Floats) -> Floats:
    """Return the interquartile mean of each row: [rows, scores] to [rows]."""
    cut = flat.shape[1] // 4
    return np.sort(flat, axis=1)[:, cut : flat.shape[1] - cut].mean(axis=1)


def _above(flat: Floats, threshold: float) -> Floats:
    return np.greater(flat, threshold).mean(axis=1)


def _checked(scores_R_C: Floats) -> Floats:
    if scores_R_C.ndim != 2 or not scores_R_C.size or not np.isfinite(scores_R_C).all():
        raise BadConfig(
            f"scores have the shape {scores_R_C.shape}; expected finite numbers, a row for each run, a column for each task"
        )
    return scores_R_C
