"""The reward `retry`: asking again, in other words, after a search that did not settle the question."""

import re
from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.stages.rewards import reward
from agentgym.trainers.stages.seams import Within


@reward("retry")
def retry(
    episodes: Sequence[Episode],
    *,
    query: str = "search",
    decay: Annotated[float, Within(0, 0.99)] = 0.5,
    weight: Annotated[float, Within(0)] = 0.05,
) -> list[dict[str, list[float]]]:
    """Pay the k-th query of an episode, k from 2 on, `weight * decay^(k - 2)`, if an answer is given in the end.

    Source: ReZero, arXiv 2504.11001. Its abstract says that another query after a failed search is paid; that this takes a
    final answer was not checked against its text, and both constants are ours. A query is a valid turn whose action calls
    `query` (`search[...]`, `<search>...`, or JSON with this name); one in the words of an earlier one is none. An episode
    earns at most `weight / (1 - decay)`, and nothing where the horizon or the context cut it off.
    """
    call = re.compile(rf"\W*(?:name\W+)?{re.escape(query)}\b")
    return [{"retry": _paid(episode, call, decay, weight)} for episode in episodes]


def _paid(episode: Episode, call: re.Pattern[str], decay: float, weight: float) -> list[float]:
    paid = [0.0] * len(episode.turns)
    if episode.reason not in ("success", "failure") or episode.error:
        return paid
    asked: set[str] = set()
    for place, turn in enumerate(episode.turns):
        words = " ".join(re.findall(r"\w+", turn.action.casefold()))
        if turn.valid and call.match(turn.action) and words not in asked:
            paid[place] = weight * decay ** (len(asked) - 1) if asked else 0.0
            asked.add(words)
    return paid
