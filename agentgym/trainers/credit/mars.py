"""Credit for multi-turn self-play: compare the return-to-go of a turn with all turns of the same role."""

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
    """Credit turn k with G_k - mean G, where G_k = r_k + gamma G_{k+1}, over all turns of its role in the step.

    Source: MARS (later MARSHAL), arXiv 2510.15414. Rewards are summed from each turn on before they are normalized.
    Each role of each environment is normalized separately, because the roles of a game earn different amounts. r_k is
    the reward that the role gets for its turn; a role that did not move last gets the outcome at its last turn. The
    paper normalizes over a group. The published code normalizes over the batch by default, and so does this credit
    (`turn_mc` normalizes over a group). Each turn counts once, however many tokens it has. The published scripts also
    whiten rewards and advantages, which is not done here.
    Statistics over turns of a role and environment, in all processes. `norm="std"` also divides by the spread (ddof 0)
    + eps; the published settings only subtract the mean. Without spread all credits are 0. Rejected actions get
    no penalties.
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
