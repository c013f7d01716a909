"""The reward `fewest_calls`: pay a bonus to the successes of a group that needed the fewest tool calls."""

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
    """Pay min(2 * variance, `most`) to each success with the fewest calls of `tool` among the successes of its group.

    Source: R1-Searcher++, arXiv 2505.17005, group reward, which teaches a policy to answer from memory when it can. The
    variance (ddof 0) is that of the number of calls over the group's successes. So a bonus is paid only if these
    numbers differ, and a failure that never searched earns nothing. Only calls that the environment accepted count. The
    cap `most` is ours; we have not checked the paper's.
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
