"""How many steps a second episodes take: what the parts of benchmarks/integrations.py measure with."""

import itertools
import time
from collections.abc import Callable
from typing import Any


def rate(seconds: float, episode: Callable[[int], int]) -> float:
    """Return how many steps a second episodes take, one after another."""
    episode(0)
    steps, started = 0, time.perf_counter()
    for number in itertools.count(1):
        steps += episode(number)
        if (spent := time.perf_counter() - started) > seconds:
            return steps / spent
    raise AssertionError


def env_rate(env: Any, action: str, seconds: float) -> float:
    """Return the steps a second of an environment in which every turn is the same action, resets included; closes it."""

    def episode(number: int) -> int:
        env.reset(seed=number)
        return 1 + sum(1 for _ in iter(lambda: any(env.step(action)[2:4]), True))

    try:
        return rate(seconds, episode)
    finally:
        env.close()
