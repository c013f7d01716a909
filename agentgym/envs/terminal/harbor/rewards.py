"""Parse rewards as Harbor's verifier does, and reduce several metrics to one number (compared with harbor 0.26.0)."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import cast

from agentgym.errors import BadConfig

FILES = ("reward.json", "reward.txt")
"""Reward files of the tests in `/logs/verifier`. The first file that exists counts, even without a valid reward."""
RULES: Mapping[str, Callable[[list[float]], float]] = {"min": min, "max": max, "mean": fmean, "sum": fsum}
"""Functions that reduce several metrics without a `reward` to one number, under Harbor's names."""
KEY = "key:"
"""Prefix of a rule that names a single metric."""


class NoVerdict(Exception):
    """The tests gave no reward; the message says why."""


def check_rule(rule: str) -> None:
    """Check that a metric rule is one of `RULES` or `key:NAME`.

    Raises:
        BadConfig: the rule is unknown.
    """
    if rule not in RULES and not (rule.startswith(KEY) and len(rule) > len(KEY)):
        raise BadConfig(f"metric_rule is {rule!r}; expected one of {', '.join(RULES)}, or key:NAME for a metric's name")


def rewards_in(name: str, content: bytes) -> dict[str, float]:
    """Return the rewards in `content`, by metric; `name` is the file's name, one of `FILES`.

    `reward.txt` is parsed by `float()`; `reward.json` is an object of numbers and Booleans. A bare number in `reward.json`
    is invalid: Harbor's parser accepts it, but Harbor rejects it later.

    Raises:
        NoVerdict: the file has no valid reward; Harbor raises an error for it, too.
    """
    if not content:
        raise NoVerdict(f"{name} is empty")
    try:
        text = content.decode("utf-8")
        value: object = json.loads(text) if name.endswith(".json") else {"reward": float(text)}
    except (ValueError, RecursionError):
        raise NoVerdict(f"{name} holds no reward: {content[:40]!r}") from None
    if not isinstance(value, dict):
        raise NoVerdict(f"{name} holds {value!r:.40}, and no object of metrics")
    rewards = dict[str, float]()
    for metric, number in cast("dict[str, object]", value).items():
        if not isinstance(number, int | float):
            raise NoVerdict(f"{metric!r:.40} in {name} is {number!r:.40}, which is no number")
        if not math.isfinite(number := _float(number)):
            raise NoVerdict(f"{metric!r:.40} in {name} is {number}, which is not finite")
        rewards[metric] = number
    return rewards


def combined(rewards: Sequence[Mapping[str, float]], strategy: str) -> Mapping[str, float]:
    """Combine the judged steps' rewards: the last step's (`final`), or the mean of each metric (a missing value is 0)."""
    if strategy == "final":
        return rewards[-1]
    names = dict.fromkeys(name for step in rewards for name in step)
    return {name: fsum(step.get(name, 0.0) for step in rewards) / len(rewards) for name in names}


def one_number(rewards: Mapping[str, float], rule: str) -> float:
    """Return one reward for several metrics: the metric of `key:NAME`, else `reward`, else all metrics reduced by `rule`.

    Without metrics, the reward is 0, except under `key:NAME`.

    Raises:
        NoVerdict: the named metric is missing.
    """
    if rule.startswith(KEY):
        name = rule.removeprefix(KEY)
        if name not in rewards:
            raise NoVerdict(f"no metric {name!r} among {', '.join(map(repr, rewards)):.200}")
        return rewards[name]
    if "reward" in rewards or not rewards:
        return rewards.get("reward", 0.0)  # Harbor's metrics count an empty object as 0
    return RULES[rule](list(rewards.values()))


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer beyond float range becomes the largest float of its sign
        return math.copysign(1.797e308, number)
