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
    """Credit turn k with G_k = r_k + gamma * G_{k+1}, less the mean over (std + 1e-9) of all turns of the step.

    Source: return batch normalisation of GEM, arXiv 2510.01051, as its code has it (`examples/train_oat`; gamma 0.9 for
    games, 1 as its default). Statistics over turns of all groups and processes, ddof 0; neither groups nor a critic. A
    group of one, and one without spread, have a signal: train with `--select keep`. Without any spread exactly 0. No
    penalties.
    Returns an array [turns] per episode, in standard deviations of G.
    """
    returns = [[discounted(turn_rewards(episode), gamma) for episode in group] for group in groups]
    return whitened(returns, run, eps=1e-9)
