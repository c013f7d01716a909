"""A clipped loss on the tokens that decide: the fifth of them with the highest entropy (arXiv 2506.01939).

agentgym train household --loss forking_tokens:forking_tokens --loss.share 0.1
"""

import numpy as np

import agentgym
from agentgym.trainers.losses.policy import clip


def highest(update, *, share):
    """Factors of an update's tokens: 1 for the `share` with the highest entropy, 0 for all others."""
    number = max(1, round(share * len(update.advantages)))
    return np.argsort(np.argsort(-update.extra["entropy"], kind="stable")) < number


@agentgym.loss("forking_tokens", needs=("entropy",), choose=highest)
def forking_tokens(tokens, *, share: float = 0.2, clip_low: float = 0.2, clip_high: float = 0.2):
    """PPO's clipped loss of the tokens that `highest` left in."""
    return clip(tokens, clip_low=clip_low, clip_high=clip_high)
