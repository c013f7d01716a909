"""ReBN: normalize the returns of turns over all turns of a step."""

from collections.abc import Sequence

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Share, discounted
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("rebn", scope="batch", uniform=True)
def rebn(groups: Sequence[Group], *, gamma: Share = 0.9, run: Processes | None = None) -> list[list[Floats]]:
    """Credit turn k with (G_k - mean) / (std + 1e-9) over all turns of the step, where G_k = r_k + gamma * G_{k+1}.

    Source: return batch normalization of GEM, arXiv 2510.01051, as in its code (`examples/train_oat`, which uses gamma
    0.9 for games and 1 by default). Statistics over turns of all groups and processes, ddof 0; it uses neither the
    group nor a critic. Groups of one episode or without spread also get credit: keep them with `--select keep`. Zero
    spread over the whole step gives exactly 0. Rejected actions get no penalties.
    Returns an array [turns] per episode, in standard deviations of G.
    """
    returns = [[discounted(turn_rewards(episode), gamma) for episode in group] for group in groups]
    return whitened(returns, run, eps=1e-9)
