"""Credit against what a role is used to earning: for several players, and groups that cannot be compared."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.stages.credit import Floats, Within, credit
from agentgym.trainers.stages.seams import Processes


@credit("role_baseline", scope="batch", uniform=True)
def role_baseline(
    groups: Sequence[Group],
    *,
    state: dict[str, float],
    run: Processes | None = None,
    decay: Annotated[float, Within(0, 1)] = 0.95,
) -> list[list[Floats]]:
    """Every turn is credited with R - b, the return less a moving average of what its role earns in that environment.

    Source: SPIRAL, arXiv 2506.24119, role-conditioned advantage estimation. Once a step, before the advantages, b becomes
    decay * b + (1 - decay) * mean R over the step's episodes of that role (SPIRAL: after every episode); b begins at 0.
    Statistics over trajectories, kept in the `state` from step to step; of several processes, over those of all. No ddof,
    no eps: nothing is divided. A group of one, and one without spread, have a signal: train with `--select keep`. No
    penalties.
    """
    seen = [(f"{e.env} {group.role}", e.reward) for group in groups for e in group]
    by_role: dict[str, list[float]] = {}
    for role, reward in seen if run is None else run.gathered(seen):
        by_role.setdefault(role, []).append(reward)
    for role, rewards in sorted(by_role.items()):
        state[role] = decay * state.get(role, 0.0) + (1 - decay) * float(sum(rewards)) / len(rewards)
    return [[np.full(len(e.turns), e.reward - state[f"{e.env} {group.role}"]) for e in group] for group in groups]
