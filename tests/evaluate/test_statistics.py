"""Statistics against numbers worked out by hand, and against simulated data whose truth is known."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, Episode
from agentgym.evaluate.statistics import (
    mean_interval,
    outcomes,
    paired_difference,
    success,
)


def played(task: str, attempt: int, result: bool | None, env: str = "me/Env-v0") -> Episode:
    reason = {True: "success", False: "horizon", None: "timeout"}[result]
    return Episode(env, task, task, seed=attempt, attempt=attempt, success=result, reason=reason)


def test_the_rate_is_the_mean_over_tasks_and_faults_do_not_count():
    # task a: 2 of 2; task b: 1 of 4; a fault on b, and a task that only ever faulted: (1 + 0.25) / 2
    episodes = [played("a", i, True) for i in range(2)]
    episodes += [played("b", 0, True), *(played("b", i, False) for i in (1, 2, 3)), played("b", 4, None)]
    episodes.append(played("c", 0, None))
    rate = success(episodes)
    assert rate.mean == 0.625
    assert (rate.tasks, rate.episodes, rate.faults) == (2, 6, 2)
    assert rate.low < 0.625 < rate.high
    assert "62.5 %" in str(rate)
    assert "2 infrastructure errors not counted" in str(rate)


def test_the_same_task_id_in_two_environments_is_two_tasks():
    assert success([played("a", 0, True, "me/A-v0"), played("a", 0, False, "me/B-v0")]).tasks == 2


def test_interval_of_many_single_attempts_is_the_textbook_one():
    # 400 tasks, 100 solved: standard error sqrt(0.25 * 0.75 / 399) = 0.021678; t(399) = 1.9659
    rate = mean_interval({str(i): [float(i < 100)] for i in range(400)})
    assert rate.mean == 0.25
    assert rate.low == pytest.approx(0.25 - 1.9659 * 0.021678, abs=0.004)
    assert rate.high == pytest.approx(0.25 + 1.9659 * 0.021678, abs=0.004)


def test_two_tasks_that_differ_span_everything():
    # the resampled mean is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4
    assert mean_interval({"a": [1.0], "b": [0.0]}) == agentgym.evaluate.Interval(0.5, 0.0, 1.0, 2)


def test_all_alike_has_wilsons_bound_and_not_zero_width():
    # z = 1.959964: z^2 / (n + z^2) for n = 10 is 3.841459 / 13.841459 = 0.277533
    rate = success([played(str(i), 0, True) for i in range(10)])
    assert (rate.mean, rate.high) == (1.0, 1.0)
    assert rate.low == pytest.approx(1 - 0.277533, abs=1e-5)
    rate = success([played(str(i), 0, False) for i in range(10)])
    assert (rate.mean, rate.low) == (0.0, 0.0)
    assert rate.high == pytest.approx(0.277533, abs=1e-5)


def test_one_task_is_resampled_over_its_attempts():
    rate = mean_interval({"a": [1.0] * 30 + [0.0] * 70})
    assert rate.mean == pytest.approx(0.3)
    assert rate.low == pytest.approx(0.21, abs=0.02)  # +- 1.984 * sqrt(0.3 * 0.7 / 99) = 0.091
    assert rate.high == pytest.approx(0.39, abs=0.02)


def test_one_episode_says_almost_nothing():
    rate = success([played("a", 0, True)])
    assert (rate.mean, rate.high) == (1.0, 1.0)
    assert rate.low == pytest.approx(1 / 4.841459, abs=1e-6)


def test_no_episodes_and_only_faults_are_nan():
    assert math.isnan(success([]).mean)
    rate = success([played("a", 0, None)])
    assert math.isnan(rate.mean)
    assert math.isnan(rate.low)
    assert (rate.faults, rate.episodes) == (1, 0)


def coverage(n: int, attempts: int, spread: float, *, rounds: int = 300) -> float:
    """Return how often the interval holds the true mean 0.5 of tasks whose own rates vary by `spread`."""
    rng = np.random.default_rng(7)
    hits = 0
    for seed in range(rounds):
        rates = np.where(rng.random(n) < 0.5, 0.5 - spread, 0.5 + spread)
        drawn = (rng.random((n, attempts)) < rates[:, None]).astype(float)
        found = mean_interval({str(i): row for i, row in enumerate(drawn)}, resamples=500, seed=seed)
        hits += found.low <= 0.5 <= found.high
    return hits / rounds


@pytest.mark.parametrize(("n", "attempts", "spread"), [(8, 1, 0.0), (40, 1, 0.0), (40, 4, 0.4), (40, 4, 0.0)])
def test_intervals_hold_the_truth_as_often_as_they_say(n: int, attempts: int, spread: float):
    # 300 rounds: three standard errors below 0.95 are 0.912; two stages are wide where tasks are all alike
    assert coverage(n, attempts, spread) >= 0.912


def test_intervals_are_not_needlessly_wide():
    assert coverage(40, 1, 0.0) <= 0.985
    assert coverage(40, 4, 0.4) <= 0.985


def test_pairs_of_eight_seeds():
    # mean 0.1, squared deviations sum to 0.006, sd 0.029277, half width t(7) 2.3646 * sd / sqrt(8) = 0.024476
    gains = (0.05, 0.08, 0.09, 0.1, 0.1, 0.11, 0.12, 0.15)
    b = {str(seed): [0.1 * seed] for seed in range(8)}
    a = {str(seed): [0.1 * seed + gain] for seed, gain in enumerate(gains)}
    found = paired_difference(a, b)
    assert found.mean == pytest.approx(0.1)
    assert found.units == 8
    assert found.high - found.low == pytest.approx(2 * 0.024476, rel=0.1)  # although seeds differ by 0.7
    back = paired_difference(b, a)
    assert back.mean == pytest.approx(-0.1)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low), abs=0.003)


def test_pairing_uses_only_what_both_sides_played():
    a = [played("x", 0, True), played("y", 0, True), played("only a", 0, False), played("z", 0, None)]
    b = [played("x", 0, False), played("y", 0, True), played("z", 0, True)]
    found = paired_difference(a, b)
    assert (found.mean, found.units) == (0.5, 2)


def test_equal_results_still_leave_room_for_a_difference():
    same = {str(i): [1.0] for i in range(10)}
    found = paired_difference(same, same)
    assert found.mean == 0
    assert (found.low, found.high) == pytest.approx((-0.277533, 0.277533), abs=1e-5)


def test_nothing_in_common_is_refused():
    with pytest.raises(BadConfig, match="1 units on one side, 2 on the other"):
        paired_difference({"a": [1.0]}, {"b": [1.0], "c": [0.0]})


results = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([True, False, None])), max_size=20)


@given(results, st.randoms())
def test_checks_of_the_rate(drawn: list[tuple[str, bool | None]], rng: random.Random):
    episodes = [played(task, i, result) for i, (task, result) in enumerate(drawn)]
    rate = success(episodes, resamples=50)
    assert rate.episodes + rate.faults == len(episodes)
    if rate.episodes:
        assert 0 <= rate.low <= rate.mean <= rate.high <= 1
    rng.shuffle(episodes)
    assert str(success(episodes, resamples=50)) == str(rate)
    assert sum(map(len, outcomes(episodes).values())) == rate.episodes


def test_the_interval_is_a_function_of_its_arguments():
    values = {str(i): [float(i % 3 == 0), float(i % 2)] for i in range(30)}
    assert mean_interval(values) == mean_interval(values)


def test_memory_is_bounded():
    values = {str(i): [float((i + j) % 2) for j in range(16)] for i in range(2000)}
    assert mean_interval(values, resamples=200).mean == 0.5
