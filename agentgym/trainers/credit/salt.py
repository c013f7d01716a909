"""SALT: credit a step that several episodes have in common with the mean of their advantages."""

from collections.abc import Hashable
from typing import Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.gigpo import Anchor
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Norm, NotNegative

Edge = tuple[Hashable, str, Hashable]


@credit("salt")
def salt(
    group: Group, *, anchor: Anchor = "state", norm: Norm = "std", ddof: Literal[0, 1] = 1, eps: NotNegative = 1e-6
) -> list[Floats]:
    """Credit a turn with the mean group advantage of the episodes that took the same action between the same states.

    Source: SALT, arXiv 2510.20022. The episodes of a group form a graph with edges (state, action, next state), and
    equal edges are merged. The credit of an edge is the mean advantage (here `grpo`'s) of the episodes that contain it;
    each episode counts once. The paper does not define when states are equal: here their `anchor` is equal (state key
    or observation). A turn keeps the advantage of its episode if the key of its state or of the next
    one is None.
    Statistics over trajectories, ddof and eps as in `grpo`. A group of one episode gives 0; zero spread gives exactly
    0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations, or in units of the reward with `norm="mean"`.
    """
    whole = episode_advantages(group, norm=norm, ddof=ddof, eps=eps, penalty=0.0, punish="valid", penalty_order="advantage")
    through: dict[Edge, dict[int, float]] = {}
    steps: list[list[Edge | None]] = []
    for i, episode in enumerate(group):
        keys = [turn.state_key if anchor == "state" else turn.observation for turn in episode.turns]
        keys.append(episode.final_state_key if anchor == "state" else episode.final_observation)
        edges: list[Edge | None] = []
        for turn, before, after in zip(episode.turns, keys[:-1], keys[1:], strict=True):
            edges.append(None if before is None or after is None else (before, turn.action, after))
            if edges[-1] is not None:
                through.setdefault(edges[-1], {})[i] = float(whole[i][0])
        steps.append(edges)
    shared = {edge: sum(values.values()) / len(values) for edge, values in through.items()}
    return [
        np.array([own if edge is None else shared[edge] for own, edge in zip(array, edges, strict=True)])
        for array, edges in zip(whole, steps, strict=True)
    ]
