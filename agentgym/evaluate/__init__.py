"""Evaluation: confidence intervals over tasks and attempts, infrastructure errors counted separately, resumable runs."""

import importlib
from typing import TYPE_CHECKING, Any

from agentgym.evaluate.statistics import Interval, Success, paired_difference, success

if TYPE_CHECKING:
    from agentgym.evaluate.aggregates import interquartile_mean, performance_profile
    from agentgym.evaluate.attempts import avg_at_k, pass_at_k, pass_hat_k
    from agentgym.evaluate.frames import to_pandas
    from agentgym.evaluate.spending import Price, read_prices

__all__ = [
    "Interval",
    "Price",
    "Success",
    "avg_at_k",
    "interquartile_mean",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "performance_profile",
    "read_prices",
    "success",
    "to_pandas",
]

_LATE = {
    "Price": "agentgym.evaluate.spending",
    "avg_at_k": "agentgym.evaluate.attempts",
    "interquartile_mean": "agentgym.evaluate.aggregates",
    "pass_at_k": "agentgym.evaluate.attempts",
    "pass_hat_k": "agentgym.evaluate.attempts",
    "performance_profile": "agentgym.evaluate.aggregates",
    "read_prices": "agentgym.evaluate.spending",
    "to_pandas": "agentgym.evaluate.frames",
}  # imported when first used


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
