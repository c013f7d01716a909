"""Credit by type of task: compare an episode with the step's episodes of the same environment, role and task type."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.pools import spreads, standing
from agentgym.trainers.credit.scores import Norm
from agentgym.trainers.seam import Processes


@credit("task_relative", scope="batch", uniform=True)
def task_relative(
    groups: Sequence[Group],
    *,
    run: Processes | None = None,
    norm: Norm = "std",
    eps: Annotated[float, Within(0)] = 1e-6,
) -> list[list[Floats]]:
    """Credit an episode with (R - mean R) / (std R + eps) over the step's episodes of its environment, role and task type.

    Source: Absolute Zero, arXiv 2505.03335, Task-Relative REINFORCE++. It has one baseline for each of six pairs: a
    task type (deduction, abduction, induction) and a role (propose, solve). Here each role is a separate environment,
    and the type is the episode's label `type`.
    Statistics over the episodes of all processes, ddof 0 (the paper does not give it). Episodes whose environment, role
    and type have no spread get 0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations, or in units of the reward with `norm="mean"`.
    """
    scored = [(_pool(e, group.role), [e.reward]) for group in groups for e in group]
    pooled = spreads(scored, run, ddof=0)
    return [
        [standing(np.full(len(e.turns), e.reward), pooled[_pool(e, group.role)], norm=norm, eps=eps) for e in group]
        for group in groups
    ]


def _pool(episode: Episode, role: str) -> str:
    return f"{episode.env} {role} {episode.labels.get('type', '')}"
