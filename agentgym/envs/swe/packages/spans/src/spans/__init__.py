"""Half-open intervals, sets of them, and stretches of calendar days."""

from spans.days import DayRange, business_days, month_of, weeks
from spans.interval import Interval
from spans.intervalset import IntervalSet
from spans.text import format_interval, parse_interval, parse_set

__all__ = [
    "DayRange",
    "Interval",
    "IntervalSet",
    "business_days",
    "format_interval",
    "month_of",
    "parse_interval",
    "parse_set",
    "weeks",
]
