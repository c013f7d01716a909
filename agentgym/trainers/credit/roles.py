"""Credit relative to a role's moving average return, for several roles and for groups that cannot be compared."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.seam import Processes


@credit("role_baseline", scope="batch", uniform=True)
def role_baseline(
    groups: Sequence[Group],
    *,
    state: dict[str, float],
    run: Processes | None = None,
    decay: Annotated[float, Within(0, 1)] = 0.95,
    every: Literal["step", "episode"] = "step",
) -> list[list[Floats]]:
    """Credit every turn with R - b, where b is a moving average of its role's returns in that environment.

    Source: SPIRAL, arXiv 2506.24119, role-conditioned advantage estimation. b starts at 0. With `every="step"`, b
    becomes decay * b + (1 - decay) * mean R once per step, over the role's episodes of the step, before advantages are
    computed. With `every="episode"`, as in SPIRAL, b becomes decay * b + (1 - decay) * R with each episode, and that
    episode's advantage uses the updated b; episodes count in the order of the step's groups, process by process.
    Statistics over trajectories of all processes, stored in `state` between steps. No ddof, no eps: nothing is divided.
    Groups of one episode or without spread also get credit: keep them with `--select keep`. Rejected actions get
    no penalties.
    Returns an array [turns] per episode, in units of the reward.
    """
    seen = [(f"{e.env} {group.role}", e.reward) for group in groups for e in group]
    everyone = seen if run is None else run.gather(seen)
    if every == "episode":
        first = 0 if run is None else _before(run, len(seen))
        baselines = _updated(everyone, state, decay)[first : first + len(seen)]
    else:
        by_role: dict[str, list[float]] = {}
        for role, reward in everyone:
            by_role.setdefault(role, []).append(reward)
        for role, rewards in sorted(by_role.items()):
            state[role] = decay * state.get(role, 0.0) + (1 - decay) * float(sum(rewards)) / len(rewards)
        baselines = [state[role] for role, _ in seen]
    left = iter(baselines)
    return [[np.full(len(e.turns), e.reward - next(left)) for e in group] for group in groups]


def _before(run: Processes, count: int) -> int:
    """Return the total number of episodes in processes of lower rank; `count` is this process's number."""
    return sum(run.gather([count])[: run.rank])


def _updated(seen: Sequence[tuple[str, float]], state: dict[str, float], decay: float) -> list[float]:
    """Update the moving averages in `state` by each (role, return) in order; return the role's average after each."""
    baselines: list[float] = []
    for role, reward in seen:
        state[role] = decay * state.get(role, 0.0) + (1 - decay) * reward
        baselines.append(state[role])
    return baselines
