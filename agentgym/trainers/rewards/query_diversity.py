"""The reward `query_diversity`: reward queries that differ from one another."""

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

    Source: the published code of ReZero, arXiv 2504.11001, whose diversity reward is built around that mean, the similarity
    that of difflib; its bonuses for search operators and for single queries, and its other penalties, are not implemented: a
    repeated query already makes the mean lower. Nothing is paid for fewer than two queries.
    """
    return [{"query_diversity": weight * _diversity(episode, query)} for episode in episodes]


def _diversity(episode: Episode, query: str) -> float:
    queries = [words(turn.action)[:LONGEST] for turn in valid_calls(episode, query)[:MOST]] if answered(episode) else []
    pairs = list(itertools.combinations(queries, 2))
    return sum(1 - SequenceMatcher(None, a, b, autojunk=False).ratio() for a, b in pairs) / len(pairs) if pairs else 0.0
