"""Interquartile mean and performance profile: by hand, and against what rliable 1.2 gave for the same table."""

import math

import numpy as np
import pytest

from agentgym import BadConfig, Episode
from agentgym.evaluate.aggregates import (
    interquartile_interval,
    interquartile_mean,
    performance_profile,
    profile_intervals,
    score_table,
)

SCORES = np.array(
    [
        [0.78, 0.95, 0.35, 0.79, 0.48, 0.48],
        [0.23, 0.75, 0.71, 0.32, 0.49, 0.75],
        [0.42, 0.5, 0.95, 0.25, 0.08, 0.75],
        [0.84, 0.69, 0.81, 0.87, 0.88, 0.43],
        [0.58, 0.44, 0.35, 0.22, 0.9, 0.25],
    ]
)


def test_interquartile_mean_by_hand():
    # 8 scores: two cut at each end, (3 + 4 + 5 + 7) / 4
    assert interquartile_mean(np.array([[9.0, 1.0, 4.0, 3.0], [2.0, 5.0, 7.0, 8.0]])) == 4.75
    # 5 scores: int(5 / 4) = 1 cut at each end
    assert interquartile_mean(np.array([[0.0, 10.0, 1.0, 2.0, 6.0]])) == 3.0


def test_the_interval_is_that_of_rliable():
    # rliable 1.2, 50,000 resamples: 0.586875 [0.464375, 0.708125]
    found = interquartile_interval(SCORES, resamples=20_000)
    assert found.value == pytest.approx(0.586875)
    assert (found.low, found.high) == pytest.approx((0.464375, 0.708125), abs=0.006)


def test_the_profile_is_that_of_rliable():
    # rliable 1.2; a score of exactly 0.5 is not above 0.5
    thresholds = [0.2, 0.4, 0.5, 0.6, 0.8]
    expected = [29 / 30, 22 / 30, 15 / 30, 14 / 30, 7 / 30]
    lows, highs = [0.9, 0.6, 1 / 3, 0.3, 0.1], [1.0, 26 / 30, 20 / 30, 19 / 30, 11 / 30]
    assert performance_profile(SCORES, thresholds) == pytest.approx(expected)
    found = profile_intervals(SCORES, thresholds, resamples=20_000)
    assert [point.value for point in found] == pytest.approx(expected)
    assert [point.low for point in found] == pytest.approx(lows, abs=1 / 29)  # steps of 1 / 30
    assert [point.high for point in found] == pytest.approx(highs, abs=1 / 29)


def test_columns_are_never_mixed():
    # each column's runs agree, so that drawing runs again changes nothing: only a bootstrap over columns would
    found = interquartile_interval(np.array([[0.0, 0.5, 1.0, 0.7]] * 3))
    assert found.low == found.value == found.high


def test_one_run_has_no_interval():
    found = interquartile_interval(SCORES[:1])
    assert found.value == pytest.approx((0.78 + 0.79 + 0.48 + 0.48) / 4)
    assert math.isnan(found.low) and math.isnan(found.high)


@pytest.mark.parametrize("scores", [np.zeros((0, 3)), np.zeros(3), np.array([[math.nan]])])
def test_a_table_that_is_none_is_refused(scores):
    with pytest.raises(BadConfig, match="a row for each run"):
        interquartile_mean(scores)


def test_episodes_become_a_table_of_attempts_and_types():
    def played(task: str, kind: str, attempt: int, result: bool | None) -> Episode:
        return Episode("me/A-v0", task, task, 0, attempt=attempt, success=result, labels={"type": kind} if kind else {})

    episodes = [
        *(played(task, "heat", 0, result) for task, result in (("a", True), ("b", False))),
        played("c", "cool", 0, True),
        *(played(task, "heat", 1, result) for task, result in (("a", True), ("b", None))),  # a fault counts nowhere
        played("c", "cool", 1, False),
        played("a", "heat", 2, True),  # nothing of `cool`: the attempt has a hole and is left out
    ]
    assert score_table(episodes).tolist() == [[1.0, 0.5], [0.0, 1.0]]  # columns: cool, heat
    assert score_table([]).shape == (0, 0)
