"""A need, and a credit that uses it: `--credit examples.stages.needs:no_circles`."""

import agentgym


@agentgym.needs("seen_before")
def seen_before(groups, *, run):
    """Put 1 into turns whose state an earlier turn of the episode had, else 0."""
    for episode in (episode for group in groups for episode in group):
        keys = [turn.state_key for turn in episode.turns]
        for number, turn in enumerate(episode.turns):
            turn.extra["seen_before"] = float(keys[number] in keys[:number])


@agentgym.credit("no_circles", needs=("seen_before",))
def no_circles(group, *, cost: float = 0.1):
    """Credit R - mean R in every turn, minus `cost` in turns that return to a state."""
    mean = sum(episode.reward for episode in group) / len(group)
    return [[e.reward - mean - cost * turn.extra["seen_before"] for turn in e.turns] for e in group]
