"""The selection `memorize`: teach the policy to give the answers of successful searches without searching."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.trainers.credit.interface import WORTH
from agentgym.trainers.rewards.calls import valid_calls
from agentgym.trainers.seam import SHAPES, Within
from agentgym.trainers.selections.interface import drop, select
from agentgym.trainers.selections.mixing import joined, stand_in


@select("memorize", worth=True)
def memorize(
    groups: Sequence[Group],
    *,
    tool: Annotated[str, SHAPES] = "search",
    weight: Annotated[float, Within(0)] = 0.1,
    run: Any,
) -> list[Group]:
    """Add the answer that a search found as a direct reply to the question; drop other groups with equal returns.

    Source: R1-Searcher++, arXiv 2505.17005, external knowledge memorization: a loss -log p on successes that a second
    model rewrote without retrieval. Here no model rewrites. The group's success with the fewest calls of `tool` (at
    least one) is used: its last reply follows the episode's first prompt, which shows no document. Its worth is
    `weight` (use credit `off_policy`), which scales this loss. It has the log-probabilities of the policy before the
    update, so the ratio starts at 1, and the loss's clip limits how much one step memorizes.
    """
    added = [_from_memory(group, tool, weight) for group in groups]
    stand_in([episode for episode in added if episode], run)
    varied = {id(group) for group in drop(groups)}
    return [
        joined(group, [episode] if episode else [])
        for group, episode in zip(groups, added, strict=True)
        if episode or id(group) in varied
    ]


def _from_memory(group: Group, tool: str, weight: float) -> Episode | None:
    """Return the answer of the success with the fewest calls as a reply to the question; None without such a success."""
    found = [(len(valid_calls(episode, tool)), episode) for episode in group if episode.success and not episode.forks]
    searched = [(calls, episode) for calls, episode in found if calls and episode.turns[-1].output_ids]
    if not searched:
        return None
    _, episode = min(searched, key=lambda pair: pair[0])
    first, last = episode.turns[0], episode.turns[-1]
    turn = Turn(first.observation, first.state_key, first.admissible, first.prompt_ids, list(last.output_ids))
    turn.text, turn.action, turn.role, turn.plain_ids = last.text, last.action, last.role, first.plain_ids
    turn.extra = {WORTH: weight}
    memory = replace(episode, turns=[], reward=0.0, final_rewards={}, role_outcomes={})
    memory.add(turn)
    return memory
