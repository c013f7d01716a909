"""The reward `query_diversity`: pay for search queries that differ from each other."""

import itertools
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.calls import answered, valid_calls, words
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import SHAPES, Within

LONGEST = 200  # characters of a query to compare
MOST = 16  # first queries of an episode to compare


@reward("query_diversity")
def query_diversity(
    episodes: Sequence[Episode],
    *,
    query: Annotated[str, SHAPES] = "search",
    weight: Annotated[float, Within(0, 0.99)] = 0.05,
) -> list[dict[str, float]]:
    """Pay `weight` times the mean of 1 - similarity over all pairs of queries, if the episode ends with an answer.

    Source: the published code of ReZero, arXiv 2504.11001. This mean, with difflib's similarity, is the core of its
    diversity reward. Its bonuses for search operators and single queries, and its other penalties, are not implemented:
    a repeated query already lowers the mean. The first 16 valid calls of `query` are compared, by their first 200
    characters. With fewer than two, nothing is paid.
    """
    return [{"query_diversity": weight * _diversity(episode, query)} for episode in episodes]


def _diversity(episode: Episode, query: str) -> float:
    queries = [words(turn.action)[:LONGEST] for turn in valid_calls(episode, query)[:MOST]] if answered(episode) else []
    pairs = list(itertools.combinations(queries, 2))
    return sum(1 - SequenceMatcher(None, a, b, autojunk=False).ratio() for a, b in pairs) / len(pairs) if pairs else 0.0
