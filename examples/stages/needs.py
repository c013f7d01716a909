"""A need of one's own, and a credit that takes it: `--credit examples.stages.needs:no_circles`."""

import agentgym


@agentgym.needs("seen_before")
def seen_before(groups, *, run):
    """Whether an earlier turn of the episode was in the same state."""
    for episode in (episode for group in groups for episode in group):
        keys = [turn.state_key for turn in episode.turns]
        for number, turn in enumerate(episode.turns):
            turn.extra["seen_before"] = float(keys[number] in keys[:number])


@agentgym.credit("no_circles", needs=("seen_before",))
def no_circles(group, *, cost: float = 0.1):
    """R - mean R in every turn, less a cost where it came back to a state."""
    mean = sum(episode.reward for episode in group) / len(group)
    return [[e.reward - mean - cost * turn.extra["seen_before"] for turn in e.turns] for e in group]
