"""A credit whose numbers can be seen in what a trainer makes of them."""

import agentgym


@agentgym.credit("by_place")
def by_place(group):
    """Turn k of attempt n: k, counted from 1, with a sign that changes from attempt to attempt."""
    return [[(k + 1) * (-1) ** episode.attempt for k in range(len(episode.turns))] for episode in group]
