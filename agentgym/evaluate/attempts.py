"""Metrics of repeated attempts at a task: best of k (pass@k), all of k (pass^k) and average of k (avg@k).

Each is a mean over every way to draw `k` of the attempts, so the order of attempts does not matter.
"""

import math
from collections.abc import Callable

from agentgym.errors import BadConfig
from agentgym.evaluate.statistics import Outcomes


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Return the probability that at least one of `k` attempts, drawn without replacement, succeeded.

    This is the unbiased estimator of Chen et al., 2021 (arXiv:2107.03374), equation 1: `1 - C(n-c, k) / C(n, k)` for c
    successes in n attempts.
    """
    _check(f"pass@{k}", attempts, successes, k)
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Return the probability that all of `k` attempts, drawn without replacement, succeeded.

    This is the unbiased estimator of pass^k in Yao et al., 2024 (tau-bench, arXiv:2406.12045), section 3:
    `C(c, k) / C(n, k)` for c successes in n attempts.
    """
    _check(f"pass^{k}", attempts, successes, k)
    return math.comb(successes, k) / math.comb(attempts, k)


def avg_at_k(attempts: int, successes: int, k: int) -> float:
    """Return the expected share of successes among `k` drawn attempts, which is the same for every `k`."""
    _check(f"avg@{k}", attempts, successes, k)
    return successes / attempts


def mean_over_tasks(values: Outcomes, k: int, measure: Callable[[int, int, int], float]) -> float:
    """Return a measure (such as `pass_at_k`) averaged over the tasks with at least `k` attempts; NaN if there are none."""
    rates = [measure(len(v), round(sum(v)), k) for v in values.values() if len(v) >= k]
    return sum(rates) / len(rates) if rates else math.nan


def useful_ks(attempts: int) -> list[int]:
    """Return the values of k to report: powers of two up to `attempts`, and `attempts` itself."""
    return sorted({1 << power for power in range(attempts.bit_length())} | ({attempts} if attempts else set()))


def _check(name: str, attempts: int, successes: int, k: int) -> None:
    if not 0 <= successes <= attempts or not 1 <= k <= attempts:
        raise BadConfig(f"{name} of {successes} successes in {attempts} attempts: needs 1 <= k <= attempts")
