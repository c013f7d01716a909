"""The reward `calibration`: pay for a stated confidence that matches the success rate."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.confidence import confidence
from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within


@reward("calibration")
def calibration(episodes: Sequence[Episode], *, weight: Annotated[float, Within(0, 1)] = 0.5) -> list[dict[str, float]]:
    """Pay -`weight` * (q - success)^2, where q from 0 to 1 is the last reply's <confidence>q</confidence>.

    Source: RLCR, arXiv 2507.16806: correctness minus the Brier score, a proper scoring rule, so an honest confidence
    pays best. A last reply without exactly one such number gets -`weight`, like the most confident error. The prompt
    `rlcr` asks for the number. With `weight` below 1, no failure earns more than a success.
    """
    return [{"calibration": -weight * _brier(episode)} for episode in episodes]


def _brier(episode: Episode) -> float:
    probability = confidence(episode.turns[-1].text)
    return 1.0 if probability is None else (probability - float(episode.success is True)) ** 2
