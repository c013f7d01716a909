"""Credit from continuations: a turn is worth what it changes in the reward that can be expected (VinePPO).

agentgym train household --credit vine:vine --needs.k 4 --needs.every 2
"""

import numpy as np

import agentgym


@agentgym.credit("vine", needs=("branches",))
def vine(group):
    """A(t) = rewards up to the next measured turn + its value - this one's value; turns not measured share it."""
    found = []
    for episode in group:
        values = [turn.extra["branches"] for turn in episode.turns]
        known = [t for t, value in enumerate(values) if not np.isnan(value)]
        advantages = np.zeros(len(values))
        for t, after in zip(known, [*known[1:], len(values)], strict=True):
            reward = sum(turn.reward for turn in episode.turns[t:after])
            advantages[t:after] = reward + (values[after] if after < len(values) else 0.0) - values[t]
        found.append(advantages)
    return found
