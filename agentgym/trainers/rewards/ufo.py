"""The reward `ufo`: pay for fewer attempts, and for a different answer in each attempt."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within

Share = Annotated[float, Within(0, 1)]


@reward("ufo")
def ufo(episodes: Sequence[Episode], *, decay: Share = 0.9, weight: Share = 0.1) -> list[dict[str, float]]:
    """Pay `decay`^(turns - 1) - 1 to a success, and -`weight` times the share of turns that repeat an earlier action.

    Source: UFO, arXiv 2507.14295: a success in turn T is worth decay^T, and a repetition penalty weighs 1 - distinct
    answers / turns. Here the first turn is not discounted, so an episode of one turn has the environment's own reward.
    Use it with environments that let a policy try again. Actions are compared without surrounding white space.
    """
    parts: list[dict[str, float]] = []
    for episode in episodes:
        actions = [turn.action.strip() for turn in episode.turns]
        late = decay ** (len(actions) - 1) - 1 if episode.success else 0.0
        parts.append({"late": late, "again": -weight * (1 - len(set(actions)) / len(actions))})
    return parts
