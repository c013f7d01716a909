"""Evaluation that can be trusted: intervals over tasks and attempts, faults counted apart, runs that resume."""

from agentgym.evaluate.statistics import Interval, Success, paired_difference, pass_at_k, success

__all__ = ["Interval", "Success", "paired_difference", "pass_at_k", "success"]
