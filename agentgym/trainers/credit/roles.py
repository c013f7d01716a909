"""Credit against what a role is used to earning: for several players, and groups that cannot be compared."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.stages.credit import Floats, Within, credit


@credit("role_baseline", scope="batch")
def role_baseline(
    groups: Sequence[Group], *, state: dict[str, Any], run: Any = None, decay: Annotated[float, Within(0, 1)] = 0.95
) -> list[list[Floats]]:
    """SPIRAL's role-conditioned advantage (arXiv 2506.24119, RAE): reward minus a moving average of the role's.

    A(e) = R(e) - b(role), all turns of an episode alike. Once a step, before, b <- decay * b + (1 - decay) * mean R over
    the step's episodes of that role and environment (SPIRAL: after every episode); b begins at 0. Nothing is divided by;
    a group of one, and one of equal returns, have a signal (train with `--select keep`). The averages are the `state`,
    and of several processes they are over the episodes of all.
    """
    seen = [(f"{e.env} {group.role}", e.reward) for group in groups for e in group]
    by_role: dict[str, list[float]] = {}
    for role, reward in seen if run is None else run.gathered(seen):
        by_role.setdefault(role, []).append(reward)
    for role, rewards in sorted(by_role.items()):
        state[role] = decay * state.get(role, 0.0) + (1 - decay) * sum(rewards) / len(rewards)
    return [[np.full(len(e.turns), e.reward - state[f"{e.env} {group.role}"]) for e in group] for group in groups]
