"""The reward `retry`: reward a reformulated query after a search that did not settle the question."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.calls import answered, valid_calls, words
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import SHAPES, Within


@reward("retry")
def retry(
    episodes: Sequence[Episode],
    *,
    query: Annotated[str, SHAPES] = "search",
    failed: bool = False,
    decay: Annotated[float, Within(0, 0.99)] = 0.5,
    weight: Annotated[float, Within(0)] = 0.05,
) -> list[dict[str, list[float]]]:
    """Pay the k-th query of an episode, k from 2 on, `weight * decay^(k - 2)`, if the episode ends with an answer.

    Source: ReZero, arXiv 2504.11001, and its published code: queries are paid only if the episode ends with an answer. The
    code pays 0.2, and 0.15 for each of up to five queries, also repeated ones; the decay
    and both constants are ours. A query is a valid turn whose action calls `query` (`search[...]`, `<search>...`, or
    JSON with this name); a repeated query does not count. With `failed` only those are paid that follow a query
    without a result, which left the environment's state unchanged: the abstract's retry after a failed
    search, the k-th of them with k - 1 in the exponent. An episode earns at most `weight / (1 - decay)`, and nothing if
    the horizon or the context cut it off.
    """
    return [{"retry": _paid(episode, query, failed, decay, weight)} for episode in episodes]


def _paid(episode: Episode, query: str, failed: bool, decay: float, weight: float) -> list[float]:
    paid = [0.0] * len(episode.turns)
    if not answered(episode):
        return paid
    queries: set[str] = set()
    calls, again, came = {id(turn) for turn in valid_calls(episode, query)}, 0, True
    keys = [*(turn.state_key for turn in episode.turns[1:]), episode.final_state_key]
    for place, (turn, after) in enumerate(zip(episode.turns, keys, strict=True)):
        if id(turn) not in calls:
            continue
        text = words(turn.action)
        if queries and text not in queries and not (failed and came):
            paid[place] = weight * decay**again
            again += 1
        queries.add(text)
        came = after is None or after != turn.state_key
    return paid
