"""Rewards as Harbor's verifier reads them, and one number of several metrics (checked beside harbor 0.26.0)."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import cast

from agentgym.errors import BadConfig

FILES = ("reward.json", "reward.txt")
"""Where tests write the reward, in `/logs/verifier`. The first that exists counts, even where it holds no reward."""
RULES: Mapping[str, Callable[[list[float]], float]] = {"min": min, "max": max, "mean": fmean, "sum": fsum}
"""One number of several metrics without a `reward`; the names are those of Harbor's metrics."""
KEY = "key:"
"""Prefix of a rule that names the metric to take."""


class NoVerdict(Exception):
    """The tests gave no reward; the message says why."""


def check_rule(rule: str) -> None:
    """Raise BadConfig for a rule that is none."""
    if rule not in RULES and not (rule.startswith(KEY) and len(rule) > len(KEY)):
        raise BadConfig(f"metric_rule is {rule!r}; expected one of {', '.join(RULES)}, or key:NAME for a metric's name")


def rewards_in(name: str, content: bytes) -> dict[str, float]:
    """Return the rewards that a file of the verifier holds, by name; NoVerdict where Harbor raises an error.

    `reward.txt` is what `float()` takes, `reward.json` an object of JSON numbers and Booleans. A number alone in
    `reward.json` passes Harbor's parser, and its result refuses it.
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
    """Return the rewards of a task from those of the steps that were judged: of the `final` one, or each metric's mean."""
    if strategy == "final":
        return rewards[-1]
    names = dict.fromkeys(name for step in rewards for name in step)
    return {name: fsum(step.get(name, 0.0) for step in rewards) / len(rewards) for name in names}


def one_number(rewards: Mapping[str, float], rule: str) -> float:
    """Return the reward of metrics: that of `key:NAME`, else `reward`, else the only one, else several by the rule."""
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
    except OverflowError:  # an integer beyond all floats, which counts as the largest of its sign
        return math.copysign(1.797e308, number)
