"""Credit by kind of task: an episode against all of the step that have the same role in the same kind of task."""

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
    """A = (R - mean R) / (std R + eps) over the step's episodes of the same environment, role and type of task.

    Source: Absolute Zero, arXiv 2505.03335, Task-Relative REINFORCE++: one baseline for each of the six pairs of a type of
    task (deduction, abduction, induction) and a role (propose, solve), where the role is an environment of its own here.
    The type is the episode's label `type`. ddof 0; a pool without spread gives 0.
    Statistics are over the episodes of all processes. No penalties.

    Part: whether ddof is 0 or 1 could not be settled.
    """
    scored = [(_pool(e, group.role), [e.reward]) for group in groups for e in group]
    pooled = spreads(scored, run, ddof=0)
    return [
        [standing(np.full(len(e.turns), e.reward), pooled[_pool(e, group.role)], norm=norm, eps=eps) for e in group]
        for group in groups
    ]


def _pool(episode: Episode, role: str) -> str:
    return f"{episode.env} {role} {episode.labels.get('type', '')}"
