"""Success rates with intervals: tasks are the sampling unit, attempts are nested in them, and faults never count.

Functions take episodes, or `Outcomes`: a list of numbers for each unit (a task or a training seed), by name.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import cast

import numpy as np
from numpy.typing import NDArray

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, unhinted
from agentgym.errors import BadConfig

Outcomes = Mapping[str, Sequence[float]]
Floats = NDArray[np.float64]
CHUNK = 1 << 21  # numbers drawn at a time, which bounds memory


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its bootstrap confidence interval, from `low` to `high` at the caller's level.

    `units` is the number of independent units, such as tasks or the attempts at one task.
    """

    mean: float
    low: float
    high: float
    units: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Success:
    """Success rate of episodes: the mean over tasks of each task's share of successful attempts."""

    mean: float
    """Success rate from 0 to 1; NaN if every episode was a fault."""
    low: float
    high: float
    tasks: int
    """Number of tasks with at least one episode that did not end in an infrastructure error."""
    episodes: int
    """Number of episodes from which the rate is computed: those without infrastructure errors."""
    faults: int
    """Number of episodes that ended in infrastructure errors; they are excluded from the rate."""

    def __str__(self) -> str:
        excluded = f", {self.faults} infrastructure errors not counted" if self.faults else ""
        if not self.episodes:
            return f"no result (0 episodes{excluded})"
        return (
            f"{100 * self.mean:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] "
            f"({self.episodes} episodes of {self.tasks} tasks{excluded})"
        )


def outcomes(episodes: Iterable[Episode]) -> dict[str, list[float]]:
    """Return the outcomes (1 or 0) of episodes by task, as `ENV TASK`; faults and episodes with a hint are left out."""
    by_task: dict[str, list[float]] = {}
    for episode in unhinted(episodes):
        if episode.success is not None:
            by_task.setdefault(f"{episode.env} {episode.task_id}", []).append(float(episode.success))
    return by_task


def success(episodes: Iterable[Episode], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Success:
    """Return the success rate and its interval, with faults counted separately; episodes with a hint are left out."""
    episodes = unhinted(episodes)
    by_task = outcomes(episodes)
    rate = mean_interval(by_task, level=level, resamples=resamples, seed=seed)
    counted = sum(len(values) for values in by_task.values())
    return Success(rate.mean, rate.low, rate.high, len(by_task), counted, len(episodes) - counted)


def mean_interval(
    values: Outcomes,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Return the mean over units of each unit's mean, with a bootstrap interval over units, then attempts.

    `bounds` are the smallest and largest possible values, used only if all values agree (see `_interval`). A single unit
    is resampled over its attempts only, and `units` is then their number. Without values everything is NaN.
    """
    _check(level, resamples)
    table = _table(values)
    if not len(table.sizes):
        return Interval(math.nan, math.nan, math.nan, 0)
    drawn = _resample([table], resamples, seed)[0]
    means = table.means()
    if len(means) == 1:
        return _interval(table.rows[0, : table.sizes[0]], drawn, bounds, level)
    return _interval(means, drawn, bounds, level)


def paired_difference(
    a: Outcomes | Iterable[Episode],
    b: Outcomes | Iterable[Episode],
    *,
    bounds: tuple[float, float] = (-1.0, 1.0),
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Return the mean of `a - b` over the units that both have, with a bootstrap interval over units, then attempts.

    Units are tasks of episodes, or the names in `Outcomes` (training seeds, for example). Resampling keeps both
    sides of a unit together, so the unit's difficulty cancels. `bounds` are the smallest and largest possible
    difference, used only for a single unit, or if every resample gives the same mean (see `_interval`).

    Raises:
        BadConfig: the two have no unit in common.
    """
    _check(level, resamples)
    left, right = _as_outcomes(a), _as_outcomes(b)
    common = [name for name in left if name in right and left[name] and right[name]]
    if not common:
        raise BadConfig(f"nothing to pair: {len(left)} units on one side, {len(right)} on the other, none in common")
    tables = [_table({name: side[name] for name in common}) for side in (left, right)]
    drawn = _resample(tables, resamples, seed)
    differences = tables[0].means() - tables[1].means()
    return _interval(differences, drawn[0] - drawn[1], bounds, level)


@dataclass(frozen=True, slots=True)
class _Table:
    """Values of all units in one padded array."""

    rows: Floats  # [units, most attempts]
    sizes: NDArray[np.int64]  # [units]

    def means(self) -> Floats:
        return self.rows.sum(axis=1) / self.sizes


def _table(values: Outcomes) -> _Table:
    ordered = [sorted(values[name]) for name in sorted(values) if len(values[name])]  # independent of the order of files
    sizes = np.array([len(v) for v in ordered], dtype=np.int64)
    rows = np.zeros((len(ordered), int(sizes.max(initial=0))))
    for row, v in zip(rows, ordered, strict=True):
        row[: len(v)] = v
    return _Table(rows, sizes)


def _resample(tables: Sequence[_Table], resamples: int, seed: int) -> list[Floats]:
    """Return the bootstrap distribution [resamples] of each table's mean; units are drawn once for all tables."""
    rng = generator("bootstrap", seed)
    units = len(tables[0].sizes)
    width = max(table.rows.shape[1] for table in tables)
    chunk = max(1, CHUNK // (units * width))
    parts: list[list[Floats]] = [[] for _ in tables]
    for start in range(0, resamples, chunk):
        resampled_units = rng.integers(units, size=(min(chunk, resamples - start), units))  # [resamples, units]
        for table, part in zip(tables, parts, strict=True):
            part.append(_attempt_means(table, resampled_units, rng).mean(axis=1))
    return [np.concatenate(part) for part in parts]


def _attempt_means(table: _Table, resampled_units: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return the mean of resampled attempts of each resampled unit as [resamples, units]."""
    width = table.rows.shape[1]
    if width == 1:
        return table.rows[resampled_units, 0]
    sizes = table.sizes[resampled_units][..., None]  # [resamples, units, 1]
    attempt = (rng.random((*resampled_units.shape, width)) * sizes).astype(np.int64)
    place: NDArray[np.int64] = np.arange(width, dtype=np.int64)
    drawn: Floats = table.rows[resampled_units[..., None], attempt] * np.less(place, sizes)
    return drawn.sum(axis=2) / sizes[..., 0]


def _interval(units: Floats, drawn: Floats, bounds: tuple[float, float], level: float) -> Interval:
    """Return the expanded percentile interval of a bootstrap distribution [resamples].

    The percentile bootstrap is too narrow for few units, so its percentiles are moved out by the ratio of Student's t to
    the normal quantile and by sqrt(n / (n-1)) (Hesterberg, 2015, "What teachers should know about the bootstrap",
    section 4). For a single unit, or if all values agree, resampling gives no width. Wilson's score interval then bounds
    the share of units that may still differ, and these are assumed to lie at an end of `bounds`.
    """
    n, mean = len(units), float(units.mean())
    z = NormalDist().inv_cdf(0.5 + level / 2)
    if n == 1 or np.ptp(units) == 0:
        share = z * z / (n + z * z)
        agreed = Interval(mean, mean - share * (mean - bounds[0]), mean + share * (bounds[1] - mean), n)
        if n == 1 or np.ptp(drawn) == 0:
            return agreed
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * _student(z, n - 1))
    low, high = (float(x) for x in np.quantile(drawn, [tail, 1 - tail]))
    return Interval(mean, min(low, mean), max(high, mean), n)


def _student(z: float, freedom: int) -> float:
    """Return Student's t quantile for the normal quantile `z` and the degrees of `freedom`.

    This is the expansion 26.7.5 of Abramowitz and Stegun. At 95 % it is too low by 11 % for `freedom` 1, 0.7 % for 2 and
    0.1 % for 3.
    """
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3 + g4 / freedom**4


def _as_outcomes(side: Outcomes | Iterable[Episode]) -> Outcomes:
    return cast("Outcomes", side) if isinstance(side, Mapping) else outcomes(side)


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1 or resamples < 1:
        raise BadConfig(
            f"level is {level} and resamples {resamples}; expected a level between 0 and 1 and at least 1 resample"
        )
