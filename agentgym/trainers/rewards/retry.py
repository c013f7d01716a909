"""The reward `retry`: pay for another, reworded query after a search."""

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
    """Pay `weight * decay^(k - 2)` for the k-th query of an episode (k >= 2), if the episode ends with an answer.

    Source: ReZero, arXiv 2504.11001, and its published code. The code pays 0.2, and 0.15 for each of up to five
    queries, even repeated ones; `decay` and the defaults are ours. A query is a valid turn whose action calls `query`
    (`search[...]`, `<search>...`, or JSON with this name); a repeated query does not count. An episode earns at most
    `weight / (1 - decay)`, and nothing if the horizon or the context cut it off.

    With `failed`, a query is paid only if the previous one had no result, that is, left the environment's state
    unchanged. The paper's abstract describes such a retry after a failed search. The k-th such retry is paid `weight *
    decay^(k - 1)`.
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
