"""The reward `fewest_calls`: reward the success of a group that needed the fewest calls of a tool."""

from collections.abc import Sequence
from statistics import pvariance
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.calls import valid_calls
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import SHAPES, Within


@reward("fewest_calls")
def fewest_calls(
    episodes: Sequence[Episode],
    *,
    tool: Annotated[str, SHAPES] = "search",
    most: Annotated[float, Within(0)] = 0.5,
) -> list[dict[str, float]]:
    """Pay min(2 * variance, `most`) to each success with the fewest calls of its group; the variance is over successes.

    Source: R1-Searcher++, arXiv 2505.17005, group reward: answer from memory where it suffices. The variance is that of the
    number of calls of `tool` (ddof 0) over the group's successes, so that a bonus is paid only where calls differ, and a
    failure that never searched earns nothing. A call is an action that the environment accepted. `most` is ours: the
    paper's cap was not checked.
    """
    calls: dict[tuple[str, str], list[int]] = {}
    for episode in episodes:
        if episode.success:
            calls.setdefault(_group(episode), []).append(len(valid_calls(episode, tool)))
    return [{"fewest_calls": _bonus(episode, calls.get(_group(episode), []), tool, most)} for episode in episodes]


def _bonus(episode: Episode, counts: Sequence[int], tool: str, most: float) -> float:
    if not episode.success or len(valid_calls(episode, tool)) > min(counts):
        return 0.0
    return min(2.0 * pvariance(counts), most)


def _group(episode: Episode) -> tuple[str, str]:
    return episode.group_id, episode.turns[0].role
