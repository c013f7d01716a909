"""The reward `tool_calls`: pay for tool calls while a policy is still learning to use tools."""

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
    1) / 2 at step t up to 200, then nothing. Here the weight stays below 1, so no failure earns as much as a success. A
    `schedule` is linear between points; five points approximate the cosine within 0.04. A call is an action that the
    environment accepted: a call of `tool`, or any action if `tool` is empty. With `most` 1 and tool `search`, this is
    the retrieval reward of the first stage of R1-Searcher, arXiv 2503.05592.
    """
    return [{"tool_calls": weight * min(len(valid_calls(episode, tool)) / most, 1.0)} for episode in episodes]
