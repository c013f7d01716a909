"""Branch from chosen turns of whole episodes: random or uncertain ones, or states visited once or repeatedly."""

import math
from collections import Counter
from typing import Annotated, Literal

from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.branching.interface import branching, surprise
from agentgym.trainers.seam import Within

At = Literal["all", "uncertain", "anchors", "alone"]


@branching("turns")
def turns(
    growth: GroupInProgress,
    *,
    at: At = "all",
    share: Annotated[float, Within(0, 1)] = 0.5,
    k: Annotated[int, Within(1, 10_000)] = 1,
    tokens: Annotated[int, Within(0)] = 0,
) -> list[Branch]:
    """Play a `share` of the group from the beginning; branch the rest from turns of these episodes, `k` from each turn.

    Source: continuations from turns of an episode as in VinePPO (arXiv 2410.01679), which does not train on them; here
    they are trained on as episodes of the group. Branches start from turns after the first of whole episodes, in random
    order (`all`); least likely turns first, by the mean of -log p over their first `tokens` tokens (0: all tokens)
    (`uncertain`); or, in random order, turns whose state the group visited more than once (`anchors`) or only once, or
    whose state is unknown (`alone`). If there are too few such turns, the rest of the group starts at the beginning.
    """
    if not growth.episodes:
        return [Branch(max(math.ceil(share * growth.size), 1))]
    if growth.rounds > 1:
        return []
    points = [(e, number) for e in growth.episodes for number in range(1, len(e.turns))]
    met = Counter(turn.state_key for episode in growth.episodes for turn in episode.turns)
    drawn: list[int] = growth.chance.permutation(len(points)).tolist()
    order = [points[place] for place in drawn]
    if at == "uncertain":
        order.sort(key=lambda point: -surprise(point[0].turns[point[1]], tokens))
    elif at != "all":
        alone = at == "alone"
        keyed = [(e, n, e.turns[n].state_key) for e, n in order]
        order = [(e, n) for e, n, key in keyed if (key is None or met[key] == 1) == alone]
    return [Branch(k, e.attempt, n) for e, n in order[: math.ceil(growth.left / k)]]
