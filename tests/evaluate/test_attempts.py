"""pass@k, pass^k and avg@k against numbers worked out by hand and against every draw there is."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import BadConfig
from agentgym.evaluate.attempts import avg_at_k, mean_over_tasks, pass_at_k, pass_hat_k, useful_ks


@pytest.mark.parametrize(
    ("attempts", "successes", "k", "expected"),
    [
        (5, 2, 1, 0.4),
        (5, 2, 3, 1 - 1 / 10),  # C(3,3) / C(5,3)
        (10, 3, 2, 1 - 21 / 45),  # C(7,2) / C(10,2)
        (4, 0, 4, 0.0),
        (4, 1, 4, 1.0),
        (200, 1, 100, 0.5),
    ],
)
def test_pass_at_k(attempts: int, successes: int, k: int, expected: float):
    assert pass_at_k(attempts, successes, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("attempts", "successes", "k", "expected"),
    [
        (5, 2, 1, 0.4),
        (5, 4, 2, 6 / 10),  # C(4,2) / C(5,2)
        (10, 3, 2, 3 / 45),  # C(3,2) / C(10,2)
        (4, 3, 4, 0.0),
        (4, 4, 4, 1.0),
    ],
)
def test_pass_hat_k(attempts: int, successes: int, k: int, expected: float):
    assert pass_hat_k(attempts, successes, k) == pytest.approx(expected)


@pytest.mark.parametrize(("measure", "name"), [(pass_at_k, "pass@5"), (pass_hat_k, r"pass\^5"), (avg_at_k, "avg@5")])
def test_more_than_was_tried_is_refused(measure, name: str):
    with pytest.raises(BadConfig, match=f"{name} of 1 successes in 4 attempts"):
        measure(4, 1, 5)


def test_the_mean_takes_tasks_with_enough_attempts():
    assert mean_over_tasks({"a": [1.0, 0.0], "b": [0.0, 0.0], "c": [1.0]}, 2, pass_at_k) == 0.5
    assert mean_over_tasks({"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [1.0]}, 2, pass_hat_k) == 0.5
    assert math.isnan(mean_over_tasks({"c": [1.0]}, 2, pass_at_k))


def test_the_ks_to_report():
    assert [useful_ks(n) for n in (0, 1, 2, 3, 4, 6)] == [[], [1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 6]]


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_each_is_the_mean_over_all_draws(case: tuple[int, int, int]):
    n, c, k = case
    draws = list(combinations([1] * c + [0] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(max(draw) for draw in draws) / len(draws))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(min(draw) for draw in draws) / len(draws))
    assert avg_at_k(n, c, k) == pytest.approx(sum(sum(draw) / k for draw in draws) / len(draws))
