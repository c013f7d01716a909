"""Confidence that a model states in its replies, and the calibration error of these statements."""

import math
import re
from collections.abc import Sequence

from agentgym.episodes.episode import Episode

FORM = re.compile(r"<confidence>\s*(0?\.[0-9]{1,6}|1(?:\.0{1,6})?|0(?:\.0{1,6})?)\s*</confidence>", re.ASCII)
BINS = 10


def confidence(text: str) -> float | None:
    """Return the confidence stated in a reply, from 0 to 1; None if it states none, or several."""
    matches = FORM.findall(text) if text.count("<confidence>") == 1 else []
    return float(matches[0]) if len(matches) == 1 else None


def calibration(episodes: Sequence[Episode]) -> dict[str, float] | None:
    """Return the calibration of the confidence in each episode's last reply; None if no reply states one.

    `stated` is the share of episodes that state a confidence. Over these: `confidence` is the mean, `brier` the mean
    squared error, and `ece` the expected calibration error with ten equal bins (Guo et al., arXiv 1706.04599): the
    distance between a bin's mean confidence and success rate, averaged over episodes. Faults are excluded.
    """
    counted = [episode for episode in episodes if episode.success is not None and episode.turns]
    pairs = [
        (stated, float(episode.success is True))
        for episode in counted
        if (stated := confidence(episode.turns[-1].text)) is not None
    ]
    if not pairs:
        return None
    ranges: dict[int, list[tuple[float, float]]] = {}
    for stated, success in pairs:
        ranges.setdefault(min(int(stated * BINS), BINS - 1), []).append((stated, success))
    gaps = [abs(math.fsum(q for q, _ in pair) - math.fsum(y for _, y in pair)) for pair in ranges.values()]
    return {
        "stated": len(pairs) / len(counted),
        "confidence": math.fsum(q for q, _ in pairs) / len(pairs),
        "brier": math.fsum((q - y) ** 2 for q, y in pairs) / len(pairs),
        "ece": math.fsum(gaps) / len(pairs),
    }


def sentence(row: dict[str, float]) -> str:
    """Return a calibration (see `calibration`) as one line of text."""
    return (
        f"confidence was stated in {100 * row['stated']:.1f} % of the episodes, {row['confidence']:.2f} on average; "
        f"expected calibration error {row['ece']:.3f}, Brier score {row['brier']:.3f}"
    )
