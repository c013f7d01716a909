"""Credit from how much more probable each turn made the gold answer (IGPO), and from the outcome.

agentgym train math --credit information_gain:information_gain
"""

import numpy as np

import agentgym


@agentgym.credit("information_gain", needs=("probe",))
def information_gain(group, *, weight: float = 1.0):
    """Each turn: weight * (probe of the next turn - its own), and R - mean R of the group in every turn."""
    mean = np.mean([episode.reward for episode in group])
    found = []
    for episode in group:
        gain = np.diff([turn.extra["probe"] for turn in episode.turns], append=np.nan)
        found.append(episode.reward - mean + weight * np.nan_to_num(gain))
    return found
