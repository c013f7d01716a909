"""Intervals as text: `[1, 5)`, `3..9`, and lists of them."""

import re

from spans.interval import Interval
from spans.intervalset import IntervalSet

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_BRACKETS = re.compile(rf"\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)$")
_DOTS = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})$")


def _number(text):
    return float(text) if "." in text else int(text)


def parse_interval(text):
    """Read `[1, 5)` or `1..5`; a single number is an interval of length 1. ValueError for anything else."""
    text = text.strip()
    found = _BRACKETS.match(text) or _DOTS.match(text)
    if found:
        return Interval(_number(found[1]), _number(found[2]))
    if re.fullmatch(_NUMBER, text):
        start = _number(text)
        return Interval(start, start + 1)
    raise ValueError(f"no interval: {text!r}")


def parse_set(text, separator=";"):
    """Read intervals divided by a separator; nothing between two separators is passed over."""
    return IntervalSet(parse_interval(piece) for piece in text.split(separator) if piece.strip())


def format_interval(interval, digits=None):
    """Write an interval as `[1, 5)`; with `digits`, fractions are rounded to so many, and trailing zeros dropped."""

    def shown(number):
        if digits is None or isinstance(number, int):
            return str(number)
        text = f"{number:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    return f"[{shown(interval.start)}, {shown(interval.end)})"
