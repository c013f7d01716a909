"""The reward `repetition`: a penalty on repeated n-grams."""

from collections.abc import Hashable, Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within


@reward("repetition")
def repetition(
    episodes: Sequence[Episode],
    *,
    n: Annotated[int, Within(1)] = 4,
    weight: Annotated[float, Within(0)] = 0.5,
) -> list[dict[str, list[float]]]:
    """Pay each turn `-weight * repeated / total`: its n-grams that occurred before, divided by the episode's n-grams.

    The sum over an episode is `-weight * (1 - distinct / total)`, Open R1's form of the penalty in arXiv 2502.03373. An
    n-gram lies within one reply and consists of tokens, or of words if the engine returns no tokens.
    """
    return [{"repetition": [-weight * share for share in repeated(episode, n)]} for episode in episodes]


def repeated(episode: Episode, n: int) -> list[float]:
    """Return, for each turn, its number of repeated n-grams divided by the number of n-grams in the episode."""
    seen: set[tuple[Hashable, ...]] = set()
    again: list[int] = []
    total = 0
    for turn in episode.turns:
        units = _units(turn)
        grams = [tuple(units[start : start + n]) for start in range(len(units) - n + 1)]
        before = len(seen)
        seen.update(grams)
        total += len(grams)
        again.append(len(grams) - (len(seen) - before))
    return [number / max(total, 1) for number in again]


def _units(turn: Turn) -> Sequence[Hashable]:
    return turn.output_ids or turn.text.split()
