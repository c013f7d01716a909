"""Evaluation: confidence intervals over tasks and attempts, infrastructure errors counted separately, resumable runs."""

from agentgym.evaluate.aggregates import interquartile_mean, performance_profile
from agentgym.evaluate.attempts import avg_at_k, pass_at_k, pass_hat_k
from agentgym.evaluate.frames import to_pandas
from agentgym.evaluate.spending import Price, read_prices
from agentgym.evaluate.statistics import Interval, Success, paired_difference, success

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
