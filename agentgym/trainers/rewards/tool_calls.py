"""The reward `tool_calls`: reward the use of tools while a policy still has to learn it."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.calls import valid_calls
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import SHAPES, Within


@reward("tool_calls")
def tool_calls(
    episodes: Sequence[Episode],
    *,
    tool: Annotated[str, SHAPES] = "",
    most: Annotated[int, Within(1, 100_000)] = 10,
    weight: Annotated[float, Within(0, 0.99)] = 0.3,
) -> list[dict[str, float]]:
    """Pay `weight` * min(calls / `most`, 1) for successes and failures; use it with a `schedule` that falls to 0.

    Source: SPEAR, arXiv 2509.22601, and its published code: 0.1 for each tool call, at most 1, times (cos(pi t / 200) +
    1) / 2 at step t, then nothing. Here the weight stays below 1, so that no failure earns what a success does; its
    `schedule` is linear between points, and five points follow the cosine within 0.04. A call is an action that the
    environment accepted, of the `tool` named, or any. With `most` 1 and tool `search` it is the retrieval reward of the
    first stage of R1-Searcher, arXiv 2503.05592.
    """
    return [{"tool_calls": weight * min(len(valid_calls(episode, tool)) / most, 1.0)} for episode in episodes]
