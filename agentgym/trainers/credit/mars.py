"""Credit for multi-turn self-play: the return of a turn compared with those of all turns of the same role."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.pools import spreads, standing
from agentgym.trainers.credit.scores import Norm, discounted
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("mars", scope="batch", uniform=True)
def mars(
    groups: Sequence[Group],
    *,
    run: Processes | None = None,
    gamma: Annotated[float, Within(0, 1)] = 1.0,
    norm: Norm = "mean",
    eps: Annotated[float, Within(0)] = 1e-6,
) -> list[list[Floats]]:
    """Credit turn k with G_k - mean G, where G_k = r_k + gamma G_{k+1} and the mean is over the role's turns in the step.

    Source: MARS (later MARSHAL), arXiv 2510.15414: rewards are first summed from a turn on, then normalized, and each
    role of each environment is normalized separately, since the roles of a game earn differently. r_k is the reward of a
    role for its turn; the outcome of a role that did not move last belongs to its last turn. `norm="std"` divides by the
    spread (ddof 0) + eps; the published settings only subtract the mean. A pool without spread gives 0. No penalties.
    Statistics are over the turns of a pool, those of all processes.

    Part: the paper normalizes over a group; the published code by default over the batch, which is what this does
    (`turn_mc` is the same over one group). Every turn counts once in both, however many tokens it has; whitening of
    rewards and of advantages, which its training scripts switch on, is left out.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `norm="std"`.
    """
    returns = [[discounted(turn_rewards(e), gamma) for e in group] for group in groups]
    pools = [[f"{e.env} {group.role}" for e in group] for group in groups]
    scored = [
        (name, g.tolist()) for names, gs in zip(pools, returns, strict=True) for name, g in zip(names, gs, strict=True)
    ]
    pooled = spreads(scored, run, ddof=0)
    return [
        [standing(g, pooled[name], norm=norm, eps=eps) for name, g in zip(names, gs, strict=True)]
        for names, gs in zip(pools, returns, strict=True)
    ]
